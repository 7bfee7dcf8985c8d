package script

import (
	"context"
	"time"
)

var soon = deadlines{epoch: time.Now()}

// Deadline is the context of a call that ends soon.
func Deadline(parent context.Context, limit time.Time) context.Context {
	c := soon.at(parent, limit)
	return &c
}

// Classify names what a send that ended in err is known to have done.
func Classify(err error) string {
	return map[outcome]string{answered: "answered", notRun: "not run", unknown: "unknown"}[classify(err)]
}

// Parse checks the shape of a reply of a script with that name.
func Parse(name string, v any) (Reply, error) { return New(name, "").parse(v) }
