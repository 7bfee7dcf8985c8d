package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const caFile = "ca.pem"

// TLSServer is a server that speaks nothing but TLS on its port.
type TLSServer struct {
	*Server
	roots *x509.CertPool
}

// StartTLS runs a server as [Start] does, with a certificate for 127.0.0.1 from a
// CA that is made for it alone. Clients need no certificate of their own; args
// may ask for one ("--tls-auth-clients", "yes"), which the test must then make.
func StartTLS(tb testing.TB, args ...string) *TLSServer {
	tb.Helper()
	s := newServer(tb, nil)
	ca, cert, key, err := makeCertificates()
	if err != nil {
		tb.Fatalf("redistest: %v", err)
	}
	file := func(name, kind string, der []byte) string {
		path := filepath.Join(s.dir, name)
		block := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
		if err := os.WriteFile(path, block, 0o600); err != nil {
			tb.Fatalf("redistest: %v", err)
		}
		return path
	}
	s.portFlag = "--tls-port"
	s.args = slices.Concat([]string{
		"--port", "0", "--tls-auth-clients", "no",
		"--tls-ca-cert-file", file(caFile, "CERTIFICATE", ca.Raw),
		"--tls-cert-file", file("cert.pem", "CERTIFICATE", cert),
		"--tls-key-file", file("key.pem", "PRIVATE KEY", key),
	}, args)
	s.launch(tb)
	roots := x509.NewCertPool()
	roots.AddCert(ca)
	return &TLSServer{Server: s, roots: roots}
}

// TLSConfig returns a new configuration that trusts this server's CA and no
// other.
func (s *TLSServer) TLSConfig() *tls.Config {
	return &tls.Config{RootCAs: s.roots.Clone(), MinVersion: tls.VersionTLS12}
}

// CAFile is the PEM file of this server's CA, for what reads its roots from a file.
func (s *TLSServer) CAFile() string { return filepath.Join(s.dir, caFile) }

// Client returns a client that verifies the server. See [Server.Client].
func (s *TLSServer) Client(tb testing.TB, mod ...func(*redis.Options)) *redis.Client {
	tb.Helper()
	trust := func(o *redis.Options) { o.TLSConfig = s.TLSConfig() }
	return s.Server.Client(tb, slices.Insert(slices.Clone(mod), 0, trust)...)
}

// makeCertificates makes a CA and has it sign a server certificate.
func makeCertificates() (ca *x509.Certificate, cert, key []byte, err error) {
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "redistest CA"},
		IsCA:    true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign,
	}
	caDER, caKey, err := issue(template, template, nil)
	if err != nil {
		return nil, nil, nil, err
	}
	if ca, err = x509.ParseCertificate(caDER); err != nil {
		return nil, nil, nil, err
	}
	cert, serverKey, err := issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "redistest server"},
		IPAddresses: []net.IP{net.ParseIP(loopback)},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, ca, caKey)
	if err != nil {
		return nil, nil, nil, err
	}
	key, err = x509.MarshalPKCS8PrivateKey(serverKey)
	return ca, cert, key, err
}

// issue makes a key and a certificate for it, signed by its own key if there is
// no signer. It is valid from an hour ago, for clocks that are set back.
func issue(template, parent *x509.Certificate, signer *ecdsa.PrivateKey) ([]byte, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if signer == nil {
		signer = key
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	cert, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	return cert, key, err
}
