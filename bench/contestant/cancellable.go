package contestant

import "context"

// cancellable is c under contexts that can end, as those of requests can: a call then
// has to let go of its caller when they do.
func cancellable(c Contestant) Contestant {
	open := c.Open
	c.Name += ", cancellable context"
	c.Open = func(addr string) (Session, error) {
		s, err := open(addr)
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithCancel(context.Background())
		return &cancellableSession{s, ctx, cancel}, nil
	}
	return c
}

type cancellableSession struct {
	Session
	ctx    context.Context
	cancel context.CancelFunc
}

func (s *cancellableSession) Close() error {
	s.cancel()
	return s.Session.Close()
}

func (s *cancellableSession) Locker(key string) (Locker, error) {
	l, err := s.Session.Locker(key)
	return cancellableLocker{l, s.ctx}, err
}

type cancellableLocker struct {
	locker Locker
	ctx    context.Context
}

func (l cancellableLocker) Lock(context.Context) error   { return l.locker.Lock(l.ctx) }
func (l cancellableLocker) Unlock(context.Context) error { return l.locker.Unlock(l.ctx) }
