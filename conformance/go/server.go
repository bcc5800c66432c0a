package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Server is a server process on a loopback port that stays its own over restarts.
type Server struct {
	binary string
	room   string
	port   int
	child  *exec.Cmd
}

// StartServer runs binary with the text of a configuration, in which ROOM stands for a folder of its own, and returns
// once it greets.
func StartServer(binary, config string) (*Server, error) {
	room, err := os.MkdirTemp("", "conformance")
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	s := &Server{binary: binary, room: room, port: port}
	config = strings.ReplaceAll(config, "ROOM", fmt.Sprintf("%q", room))
	if err := os.WriteFile(s.configPath(), []byte(config), 0o600); err != nil {
		return nil, err
	}
	if err := s.Start(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

func (s *Server) configPath() string { return filepath.Join(s.room, "server.conf") }

// Addr is the host and port that clients connect to.
func (s *Server) Addr() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }

// URL is the address as clients want it.
func (s *Server) URL() string { return "nats://" + s.Addr() }

// Start runs the process (again) and waits until it greets.
func (s *Server) Start() error {
	s.child = exec.Command(s.binary, "-a", "127.0.0.1", "-p", fmt.Sprint(s.port),
		"-c", s.configPath(), "-l", filepath.Join(s.room, "log"))
	if err := s.child.Start(); err != nil {
		return err
	}
	deadline := time.Now().Add(patience)
	for {
		_, err := s.Greeting()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the server does not greet: %w", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Greeting is the INFO that a new connection gets.
func (s *Server) Greeting() (map[string]any, error) {
	conn, err := net.DialTimeout("tcp", s.Addr(), patience)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return nil, err
	}
	body, ok := strings.CutPrefix(line, "INFO ")
	if !ok {
		return nil, fmt.Errorf("greeted with %q", line)
	}
	info := map[string]any{}
	return info, json.Unmarshal([]byte(body), &info)
}

// Signal sends the process a signal.
func (s *Server) Signal(signal syscall.Signal) error { return s.child.Process.Signal(signal) }

// Stop ends the process without warning and waits until it is gone.
func (s *Server) Stop() {
	// Both fail only when it has ended by itself, which is what is wanted.
	_ = s.child.Process.Kill()
	_ = s.child.Wait()
}

// Restart ends the process in good order and runs it again.
func (s *Server) Restart() error {
	if err := s.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	// Its exit code says nothing about its streams, which the scene looks at.
	_ = s.child.Wait()
	return s.Start()
}

// Close stops the process and removes its files.
func (s *Server) Close() {
	if s.child != nil && s.child.Process != nil {
		s.Stop()
	}
	_ = os.RemoveAll(s.room)
}
