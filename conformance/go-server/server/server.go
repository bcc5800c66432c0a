// Package server stands in for github.com/nats-io/nats-server/v2/server in other people's tests: the servers that they
// start are processes of the program that TESTED_SERVER names. Everything else (documents, options) is the original's.
// Servers of a cluster are processes too, which find each other by their routes. Leaf nodes and gateways are offered to
// tests that write a configuration file.
package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	original "github.com/nats-io/nats-server/v2/server"
)

const patience = 20 * time.Second

// ErrLinks is what a test hears whose options have what only a file can say.
var ErrLinks = errors.New("leaf nodes and gateways are only offered to configuration files")

// Server is a process.
type Server struct {
	options *Options
	binary  string
	room    string
	ownRoom bool
	port    int
	monitor int
	// Where other servers of the cluster connect; 0 without one.
	cluster int

	lock  sync.Mutex
	child *exec.Cmd
	ended chan struct{}
}

// NewServer prepares a server; nothing runs before Start.
func NewServer(options *Options) (*Server, error) {
	if options.ConfigFile == "" && (options.LeafNode.Port != 0 || options.Gateway.Port != 0) {
		return nil, ErrLinks
	}
	binary, err := filepath.Abs(os.Getenv("TESTED_SERVER"))
	if err != nil {
		return nil, err
	}
	room, err := os.MkdirTemp("", "tested")
	if err != nil {
		return nil, err
	}
	s := &Server{options: options, binary: binary, room: room, port: options.Port, monitor: options.HTTPPort,
		cluster: options.Cluster.Port}
	if s.port == 0 {
		s.port = original.DEFAULT_PORT
	}
	if s.port < 0 {
		if s.port, err = freePort(); err != nil {
			return nil, err
		}
	}
	if s.cluster < 0 {
		if s.cluster, err = freePort(); err != nil {
			return nil, err
		}
	}
	if s.monitor <= 0 {
		if s.monitor, err = freePort(); err != nil {
			return nil, err
		}
	}
	if options.StoreDir == "" {
		options.StoreDir = filepath.Join(room, "store")
	}
	return s, os.WriteFile(s.configPath(), []byte(s.render()), 0o600)
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
func (s *Server) logPath() string    { return filepath.Join(s.room, "log") }

// Where a configuration file says that the store is.
var storeDir = regexp.MustCompile(`(?m)^\s*store(_dir)?:.*$`)

// render writes the options as a configuration; of those that came from a file it is the file, but for the store's place.
func (s *Server) render() string {
	var text strings.Builder
	o := s.options
	if o.ConfigFile != "" {
		body, err := os.ReadFile(o.ConfigFile)
		if err == nil {
			text.Write(storeDir.ReplaceAll(body, []byte(fmt.Sprintf("store_dir: %q", o.StoreDir))))
			text.WriteString("\n")
		}
		return text.String()
	}
	if o.ServerName != "" {
		fmt.Fprintf(&text, "server_name: %q\n", o.ServerName)
	}
	if o.JetStream {
		fmt.Fprintf(&text, "jetstream {\n  enabled: true\n  store_dir: %q\n", o.StoreDir)
		if o.JetStreamDomain != "" {
			fmt.Fprintf(&text, "  domain: %q\n", o.JetStreamDomain)
		}
		if o.JetStreamMaxMemory > 0 {
			fmt.Fprintf(&text, "  max_mem: %d\n", o.JetStreamMaxMemory)
		}
		if o.JetStreamMaxStore > 0 {
			fmt.Fprintf(&text, "  max_file: %d\n", o.JetStreamMaxStore)
		}
		text.WriteString("}\n")
	}
	if o.SystemAccount != "" {
		fmt.Fprintf(&text, "system_account: %q\n", o.SystemAccount)
	}
	if len(o.Accounts) > 0 {
		text.WriteString("accounts {\n")
		for _, account := range o.Accounts {
			fmt.Fprintf(&text, "  %q: { users: [", account.Name)
			for _, user := range o.Users {
				if user.Account == account {
					fmt.Fprintf(&text, "{user: %q, password: %q},", user.Username, user.Password)
				}
			}
			text.WriteString("]}\n")
		}
		text.WriteString("}\n")
	} else if len(o.Users) > 0 {
		text.WriteString("authorization { users: [")
		for _, user := range o.Users {
			fmt.Fprintf(&text, "{user: %q, password: %q},", user.Username, user.Password)
		}
		text.WriteString("]}\n")
	} else if o.Username != "" {
		fmt.Fprintf(&text, "authorization { user: %q, password: %q }\n", o.Username, o.Password)
	} else if o.Authorization != "" {
		fmt.Fprintf(&text, "authorization { token: %q }\n", o.Authorization)
	}
	if s.cluster != 0 {
		host := o.Cluster.Host
		if host == "" {
			host = "127.0.0.1"
		}
		fmt.Fprintf(&text, "cluster {\n  name: %q\n  listen: %q\n  routes: [", o.Cluster.Name,
			net.JoinHostPort(host, fmt.Sprint(s.cluster)))
		for _, route := range o.Routes {
			fmt.Fprintf(&text, "%q,", "nats://"+route.Host)
		}
		text.WriteString("]\n}\n")
	}
	if o.NoAuthUser != "" {
		fmt.Fprintf(&text, "no_auth_user: %q\n", o.NoAuthUser)
	}
	if o.MaxPayload > 0 {
		fmt.Fprintf(&text, "max_payload: %d\n", o.MaxPayload)
	}
	return text.String()
}

// ConfigureLogger does nothing: the process has a log file.
func (s *Server) ConfigureLogger() {}

// Start runs the process, and returns at once.
func (s *Server) Start() {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.child != nil {
		return
	}
	host := s.options.Host
	if host == "" || host == "0.0.0.0" {
		host = "127.0.0.1"
	}
	arguments := []string{"-c", s.configPath(), "-a", host, "-p", fmt.Sprint(s.port), "-m", fmt.Sprint(s.monitor),
		"-l", s.logPath()}
	if s.options.Trace {
		arguments = append(arguments, "-V")
	}
	child := exec.Command(s.binary, arguments...)
	child.Stderr, child.Stdout = os.Stderr, os.Stderr
	if err := child.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	ended := make(chan struct{})
	go func() { _ = child.Wait(); close(ended) }()
	s.child, s.ended = child, ended
}

// ReadyForConnections waits until the log says so.
func (s *Server) ReadyForConnections(limit time.Duration) bool {
	deadline := time.Now().Add(max(limit, patience))
	for time.Now().Before(deadline) {
		// No file yet is an empty log.
		text, _ := os.ReadFile(s.logPath())
		if bytes.Contains(text, []byte("Server is ready")) {
			return true
		}
		time.Sleep(5 * time.Millisecond)
	}
	return false
}

// Shutdown ends the process in good order.
func (s *Server) Shutdown() {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.child == nil {
		return
	}
	_ = s.child.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.ended:
	case <-time.After(patience):
		fmt.Fprintf(os.Stderr, "%s does not end\n", s.ClientURL())
		_ = s.child.Process.Kill()
		<-s.ended
	}
	if text, err := os.ReadFile(s.logPath()); err == nil && bytes.Contains(text, []byte("panicked")) {
		fmt.Fprintf(os.Stderr, "the log tells of a panic:\n%s\n", text)
	}
	s.child = nil
	_ = os.RemoveAll(s.room)
}

// WaitForShutdown has nothing left to wait for.
func (s *Server) WaitForShutdown() {}

// LameDuckShutdown is a shutdown here.
func (s *Server) LameDuckShutdown() { s.Shutdown() }

func (s *Server) address() string {
	host := s.options.Host
	if host == "" || host == "0.0.0.0" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, fmt.Sprint(s.port))
}

// ClientURL is where clients connect.
func (s *Server) ClientURL() string { return "nats://" + s.address() }

// Addr is where clients connect.
func (s *Server) Addr() net.Addr {
	address, err := net.ResolveTCPAddr("tcp", s.address())
	if err != nil {
		return nil
	}
	return address
}

// MonitorAddr is where the monitoring pages are.
func (s *Server) MonitorAddr() *net.TCPAddr {
	return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: s.monitor}
}

func (s *Server) page(path string, document any) error {
	response, err := http.Get(fmt.Sprintf("http://%s%s", s.MonitorAddr(), path))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	return json.Unmarshal(body, document)
}

// Varz is the page of that name.
func (s *Server) Varz(*VarzOptions) (*Varz, error) {
	var page Varz
	return &page, s.page("/varz", &page)
}

// Jsz is the page of that name, in all detail.
func (s *Server) Jsz(*JSzOptions) (*JSInfo, error) {
	var page JSInfo
	return &page, s.page("/jsz?accounts=1&streams=1&consumers=1&config=1", &page)
}

// ID is the server's public key.
func (s *Server) ID() string {
	page, err := s.Varz(nil)
	if err != nil {
		return ""
	}
	return page.ID
}

// String is the server's name.
func (s *Server) String() string { return s.Name() }

// Name is the server's name.
func (s *Server) Name() string {
	if s.options.ServerName != "" {
		return s.options.ServerName
	}
	page, err := s.Varz(nil)
	if err != nil {
		return ""
	}
	return page.Name
}

// ClusterAddr is where other servers of the cluster connect, nil without one.
func (s *Server) ClusterAddr() *net.TCPAddr {
	if s.cluster == 0 {
		return nil
	}
	return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: s.cluster}
}

// JetStreamIsLeader says whether the server leads the meta group.
func (s *Server) JetStreamIsLeader() bool {
	page, err := s.Jsz(nil)
	return err == nil && page.Meta != nil && page.Meta.Leader == s.Name()
}

// NumClients counts connections.
func (s *Server) NumClients() int {
	page, err := s.Varz(nil)
	if err != nil {
		return 0
	}
	return page.Connections
}

// JetStreamEnabled says what was asked for.
func (s *Server) JetStreamEnabled() bool { return s.options.JetStream }

// JetStreamConfig says where the store is.
func (s *Server) JetStreamConfig() *JetStreamConfig {
	if !s.options.JetStream {
		return nil
	}
	return &JetStreamConfig{StoreDir: s.options.StoreDir}
}
