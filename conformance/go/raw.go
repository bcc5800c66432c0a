package main

import (
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// raw is a connection that does what no client would.
type raw struct{ net.Conn }

// dialRaw connects and says CONNECT and PING, nothing else.
func dialRaw(s *Server) (raw, error) {
	conn, err := net.DialTimeout("tcp", s.Addr(), patience)
	if err != nil {
		return raw{}, err
	}
	_, err = fmt.Fprint(conn, "CONNECT {\"verbose\":false}\r\nPING\r\n")
	return raw{conn}, err
}

// told reads until the server hangs up, which it has to do in time and not without saying want.
func (r raw) told(want string) error {
	if err := r.SetReadDeadline(time.Now().Add(2 * patience)); err != nil {
		return err
	}
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if !strings.Contains(string(text), want) {
		return fmt.Errorf("it was told %q", text)
	}
	return nil
}

// dialSilent connects and says nothing at all.
func dialSilent(s *Server) (raw, error) {
	conn, err := net.DialTimeout("tcp", s.Addr(), patience)
	return raw{conn}, err
}
