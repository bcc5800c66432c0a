package ntf

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/synadia-io/orbit.go/ntf-client/api"
)

type tlsFiles struct {
	CAFile, CertFile, KeyFile string
	Mutual, HandshakeFirst    bool
	Timeout                   float64
}

type identity struct {
	key    *ecdsa.PrivateKey
	cert   *x509.Certificate
	pem    []byte
	keyPEM []byte
}

func issue(serial int64, template x509.Certificate, issuer *identity) (*identity, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template.SerialNumber = big.NewInt(serial)
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	parent, signer := &template, key
	if issuer != nil {
		parent, signer = issuer.cert, issuer.key
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, parent, &key.PublicKey, signer)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	bits, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return &identity{
		key:    key,
		cert:   cert,
		pem:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		keyPEM: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: bits}),
	}, nil
}

// mint makes a certificate authority in room, and what it signs for a server and its clients.
func mint(room string, options *api.TLSOptions) (*tlsFiles, *api.TLSMaterial, error) {
	authority, err := issue(1, x509.Certificate{
		Subject: pkix.Name{CommonName: "tester"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}, nil)
	if err != nil {
		return nil, nil, err
	}
	leaf := x509.Certificate{
		Subject: pkix.Name{CommonName: "localhost"}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	names := options.SANs
	if len(names) == 0 {
		names = []string{"localhost", "127.0.0.1", "::1"}
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			leaf.IPAddresses = append(leaf.IPAddresses, ip)
		} else {
			leaf.DNSNames = append(leaf.DNSNames, name)
		}
	}
	server, err := issue(2, leaf, authority)
	if err != nil {
		return nil, nil, err
	}
	material := &api.TLSMaterial{CAPEM: string(authority.pem)}
	files := &tlsFiles{
		CAFile: filepath.Join(room, "ca.pem"), CertFile: filepath.Join(room, "cert.pem"),
		KeyFile: filepath.Join(room, "key.pem"), Mutual: options.Mode != api.TLSModeServer,
		HandshakeFirst: options.HandshakeFirst, Timeout: options.Timeout,
	}
	if files.Timeout == 0 {
		files.Timeout = 2
	}
	if files.Mutual {
		client, err := issue(3, leaf, authority)
		if err != nil {
			return nil, nil, err
		}
		material.ClientCertPEM, material.ClientKeyPEM = string(client.pem), string(client.keyPEM)
	}
	if err := os.MkdirAll(room, 0o700); err != nil {
		return nil, nil, err
	}
	for path, text := range map[string][]byte{
		files.CAFile: authority.pem, files.CertFile: server.pem, files.KeyFile: server.keyPEM,
	} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			return nil, nil, err
		}
	}
	return files, material, nil
}
