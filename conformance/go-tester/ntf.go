// Package ntf stands in for the tester of nats.go's own tests, github.com/synadia-io/orbit.go/ntf: it answers the same
// requests (see the ntf-client of that repository), but the servers that it starts are processes of the program that
// TESTED_SERVER names, so that the tests drive any server. Clusters of clusters are not offered.
package ntf

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"text/template"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/synadia-io/orbit.go/ntf-client/api"
)

const patience = 20 * time.Second

// Options are those of the tester that this package stands in for.
type Options struct{ AdvertiseHost string }

// Service is a running tester.
type Service struct {
	binary string
	room   string
	bus    *server
	conn   *nats.Conn

	lock      sync.Mutex
	created   int
	instances map[string]*instance
}

type instance struct {
	id      string
	servers []*server
}

// New starts a tester, with a server of its own that carries its requests.
func New(context.Context, Options) (*Service, error) {
	binary, err := filepath.Abs(os.Getenv("TESTED_SERVER"))
	if err != nil {
		return nil, err
	}
	room, err := os.MkdirTemp("", "tester")
	if err != nil {
		return nil, err
	}
	s := &Service{binary: binary, room: room, instances: map[string]*instance{}}
	if err := s.open(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Service) open() (err error) {
	if s.bus, err = s.newServer("bus", configuration{}); err != nil {
		return err
	}
	if err = s.bus.start(); err != nil {
		return err
	}
	if s.conn, err = nats.Connect(fmt.Sprintf("nats://localhost:%d", s.bus.port)); err != nil {
		return err
	}
	for subject, answer := range map[string]func([]byte) (any, error){
		"tester.create.server":        s.createServer,
		"tester.create.cluster":       s.createCluster,
		"tester.create.super-cluster": refuse,
		"tester.destroy":              s.destroy,
		"tester.start.server":         s.startServer,
		"tester.stop.server":          s.stopServer,
		"tester.update.server":        s.updateServer,
		"tester.reload.server":        s.reloadServer,
	} {
		if _, err = s.conn.Subscribe(subject, func(m *nats.Msg) { go respond(m, answer) }); err != nil {
			return err
		}
	}
	return s.conn.Flush()
}

func refuse([]byte) (any, error) { return nil, errors.New("clusters of clusters are not offered") }

func respond(m *nats.Msg, answer func([]byte) (any, error)) {
	response := nats.NewMsg(m.Reply)
	body, err := answer(m.Data)
	if err == nil {
		response.Data, err = json.Marshal(body)
	}
	if err != nil {
		response.Header.Set("Nats-Service-Error", err.Error())
	}
	// The one that asked waits with a deadline of its own.
	_ = m.RespondMsg(response)
}

// Port is where the tester's requests go.
func (s *Service) Port() int { return s.bus.port }

// Close ends every server.
func (s *Service) Close() {
	if s.conn != nil {
		s.conn.Close()
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	for _, i := range s.instances {
		i.stop()
	}
	if s.bus != nil {
		s.bus.stop()
	}
	_ = os.RemoveAll(s.room)
}

func (s *Service) createServer(body []byte) (any, error) {
	var request api.CreateServerRequest
	if err := json.Unmarshal(body, &request); err != nil {
		return nil, err
	}
	return s.create("server", 1, api.CreateClusterRequest{
		JetStream: request.JetStream, Description: request.Description, Snippets: request.Snippets,
		Template: request.Template, TLS: request.TLS, Trace: request.Trace,
	})
}

func (s *Service) createCluster(body []byte) (any, error) {
	var request api.CreateClusterRequest
	if err := json.Unmarshal(body, &request); err != nil {
		return nil, err
	}
	return s.create("cluster", request.Servers, request)
}

func (s *Service) create(kind string, size int, request api.CreateClusterRequest) (any, error) {
	if request.Trace {
		return nil, errors.New("traces are not offered")
	}
	s.lock.Lock()
	s.created++
	name := fmt.Sprintf("tested-%d", s.created)
	s.lock.Unlock()
	config := configuration{JetStream: request.JetStream, Snippets: request.Snippets, Template: request.Template}
	response := api.CreateResponse{ID: name, Description: request.Description, Kind: kind}
	if request.TLS != nil {
		files, material, err := mint(filepath.Join(s.room, name+"-tls"), request.TLS)
		if err != nil {
			return nil, err
		}
		config.TLS, response.TLS = files, material
	}
	created := &instance{id: name}
	err := s.startAll(created, config, size)
	if err != nil {
		created.stop()
		return nil, err
	}
	s.lock.Lock()
	s.instances[name] = created
	s.lock.Unlock()
	for _, one := range created.servers {
		response.Servers = append(response.Servers, &api.ManagedServer{
			Name: one.name, Cluster: one.config.ClusterName, Port: one.port, Ports: one.config.Ports, Running: true,
		})
	}
	return response, nil
}

// startAll starts the servers of an instance; those of a cluster are connected to each other when it returns.
func (s *Service) startAll(created *instance, config configuration, size int) error {
	if size == 1 {
		one, err := s.newServer(created.id, config)
		if err != nil {
			return err
		}
		created.servers = []*server{one}
		return one.start()
	}
	routePorts := make([]int, size)
	config.ClusterName = created.id
	for i := range routePorts {
		port, err := freePort()
		if err != nil {
			return err
		}
		routePorts[i] = port
		config.Routes = append(config.Routes, fmt.Sprintf("nats://127.0.0.1:%d", port))
	}
	for i, routePort := range routePorts {
		monitorPort, err := freePort()
		if err != nil {
			return err
		}
		config.RoutePort, config.MonitorPort = routePort, monitorPort
		one, err := s.newServer(fmt.Sprintf("%s-%d", created.id, i+1), config)
		if err != nil {
			return err
		}
		created.servers = append(created.servers, one)
		if err := one.start(); err != nil {
			return err
		}
	}
	for _, one := range created.servers {
		if err := one.awaitRoutes(size - 1); err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) destroy(body []byte) (any, error) {
	var request api.DestroyRequest
	if err := json.Unmarshal(body, &request); err != nil {
		return nil, err
	}
	s.lock.Lock()
	found := s.instances[request.InstanceID]
	delete(s.instances, request.InstanceID)
	s.lock.Unlock()
	if found != nil {
		found.stop()
		for _, one := range found.servers {
			_ = os.RemoveAll(one.room)
		}
	}
	return api.DestroyResponse{Destroyed: found != nil}, nil
}

func (i *instance) stop() {
	for _, one := range i.servers {
		one.stop()
	}
}

// named finds the server that a request asks for by name.
func (s *Service) named(body []byte, request any, name *string) (*server, error) {
	if err := json.Unmarshal(body, request); err != nil {
		return nil, err
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	for _, i := range s.instances {
		for _, one := range i.servers {
			if one.name == *name {
				return one, nil
			}
		}
	}
	return nil, fmt.Errorf("no server %q", *name)
}

func (s *Service) startServer(body []byte) (any, error) {
	var request api.StartServerRequest
	one, err := s.named(body, &request, &request.Name)
	if err != nil {
		return nil, err
	}
	return api.StartServerResponse{Started: true}, one.start()
}

func (s *Service) stopServer(body []byte) (any, error) {
	var request api.StopServerRequest
	one, err := s.named(body, &request, &request.Name)
	if err != nil {
		return nil, err
	}
	one.stop()
	return api.StopServerResponse{Shutdown: true}, nil
}

func (s *Service) updateServer(body []byte) (any, error) {
	var request api.UpdateServerRequest
	one, err := s.named(body, &request, &request.Name)
	if err != nil {
		return nil, err
	}
	one.config.Snippets, one.config.Template = request.Snippets, request.Template
	if request.TLSTimeout != nil && one.config.TLS != nil {
		one.config.TLS.Timeout = *request.TLSTimeout
	}
	return api.UpdateServerResponse{Updated: true}, one.writeConfig()
}

func (s *Service) reloadServer(body []byte) (any, error) {
	var request api.ReloadServerRequest
	one, err := s.named(body, &request, &request.Name)
	if err != nil {
		return nil, err
	}
	return api.ReloadServerResponse{Reloaded: true}, one.reload()
}

// configuration is what the templates of the tests may name.
type configuration struct {
	ServerName, ServerDir, StoreDir, Host string
	ClientPort                            int
	JetStream                             bool
	Ports                                 map[string]int
	Snippets                              map[string]string
	TLS                                   *tlsFiles
	Template                              string
	ClusterName                           string
	RoutePort, MonitorPort                int
	Routes                                []string
}

const serverTemplate = `{{with .Snippets.top}}{{.}}{{end}}
server_name: "{{.ServerName}}"
host: "127.0.0.1"
port: {{.ClientPort}}
{{if .ClusterName}}client_advertise: "localhost:{{.ClientPort}}"{{end}}
{{if .ClusterName}}http: "127.0.0.1:{{.MonitorPort}}"
cluster {
  name: "{{.ClusterName}}"
  listen: "127.0.0.1:{{.RoutePort}}"
  routes: [{{range .Routes}}"{{.}}", {{end}}]
}{{end}}
{{with .Snippets.accounts}}{{.}}{{end}}
{{with .Snippets.system_account}}{{.}}{{end}}
{{with .Snippets.authorization}}{{.}}{{end}}
{{with .Snippets.tls}}{{.}}{{end}}
{{with .TLS}}tls {
  cert_file: "{{.CertFile}}"
  key_file: "{{.KeyFile}}"
  {{if .Mutual}}ca_file: "{{.CAFile}}"
  verify: true{{end}}
  {{if .HandshakeFirst}}handshake_first: true{{end}}
  timeout: {{.Timeout}}
}{{end}}
{{with .Snippets.websocket}}{{.}}{{end}}
{{with .Snippets.mqtt}}{{.}}{{end}}
{{with .Snippets.leafnode}}{{.}}{{end}}
{{if .JetStream}}jetstream {
  enabled: true
  store_dir: "{{.StoreDir}}"
  {{with .Snippets.jetstream}}{{.}}{{end}}
}{{end}}
`

func (c configuration) render() ([]byte, error) {
	rendered := map[string]string{}
	for key, body := range c.Snippets {
		text, err := c.fill(body)
		if err != nil {
			return nil, err
		}
		rendered[key] = string(text)
	}
	c.Snippets = rendered
	if c.Template != "" {
		return c.fill(c.Template)
	}
	return c.fill(serverTemplate)
}

func (c configuration) fill(body string) ([]byte, error) {
	parsed, err := template.New("config").Parse(body)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	err = parsed.Execute(&text, c)
	return text.Bytes(), err
}

type server struct {
	name   string
	binary string
	room   string
	port   int
	config configuration

	lock  sync.Mutex
	child *exec.Cmd
}

func (s *Service) newServer(name string, config configuration) (*server, error) {
	room := filepath.Join(s.room, name)
	if err := os.MkdirAll(filepath.Join(room, "store"), 0o700); err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	config.ServerName, config.ServerDir, config.StoreDir = name, room, filepath.Join(room, "store")
	config.Host, config.ClientPort, config.Ports = "localhost", port, map[string]int{}
	for _, listener := range []string{"websocket", "mqtt", "leafnode"} {
		if config.Snippets[listener] != "" {
			if config.Ports[listener], err = freePort(); err != nil {
				return nil, err
			}
		}
	}
	one := &server{name: name, binary: s.binary, room: room, port: port, config: config}
	return one, one.writeConfig()
}

// handedOut are the ports that a server of this process has or had: the system gives a port again that is not yet used.
var handedOut sync.Map

func freePort() (int, error) {
	for {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return 0, err
		}
		port := listener.Addr().(*net.TCPAddr).Port
		_ = listener.Close()
		if _, taken := handedOut.LoadOrStore(port, true); !taken {
			return port, nil
		}
	}
}

func (s *server) writeConfig() error {
	text, err := s.config.render()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(s.room, "server.conf"), text, 0o600)
}

func (s *server) logPath() string { return filepath.Join(s.room, "log") }

// start runs the process and waits until it says that it is ready.
func (s *server) start() error {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.child != nil {
		return nil
	}
	seen := len(s.logged())
	child := exec.Command(s.binary, "-c", filepath.Join(s.room, "server.conf"), "-l", s.logPath())
	var complaint bytes.Buffer
	child.Stderr = &complaint
	if err := child.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() { _ = child.Wait(); close(ended) }()
	s.child = child
	if err := s.await(seen, "Server is ready", ended); err != nil {
		_ = child.Process.Kill()
		<-ended
		s.child = nil
		return fmt.Errorf("%w: %s%s", err, complaint.Bytes(), s.logged()[seen:])
	}
	return nil
}

func (s *server) logged() []byte {
	// No file yet is an empty log.
	text, _ := os.ReadFile(s.logPath())
	return text
}

// await waits for words in the log, behind what has been seen of it.
func (s *server) await(seen int, words string, ended <-chan struct{}) error {
	deadline := time.Now().Add(patience)
	for {
		text := s.logged()
		scanner := bufio.NewScanner(bytes.NewReader(text[min(seen, len(text)):]))
		for scanner.Scan() {
			if strings.Contains(scanner.Text(), words) {
				return nil
			}
		}
		select {
		case <-ended:
			return fmt.Errorf("%s ended", s.name)
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s does not say %q", s.name, words)
		}
	}
}

// awaitRoutes waits until the server has routes to so many others.
func (s *server) awaitRoutes(others int) error {
	deadline := time.Now().Add(patience)
	for time.Now().Before(deadline) {
		if s.routedTo() == others {
			return nil
		}
		time.Sleep(5 * time.Millisecond)
	}
	return fmt.Errorf("%s has routes to %d servers, not %d", s.name, s.routedTo(), others)
}

func (s *server) routedTo() int {
	response, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/routez", s.config.MonitorPort))
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	var page struct {
		Routes []struct {
			RemoteID string `json:"remote_id"`
		} `json:"routes"`
	}
	if err := json.NewDecoder(response.Body).Decode(&page); err != nil {
		return 0
	}
	others := map[string]bool{}
	for _, route := range page.Routes {
		others[route.RemoteID] = true
	}
	return len(others)
}

// stop ends the process in good order and returns when it is gone.
func (s *server) stop() {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.child == nil {
		return
	}
	_ = s.child.Process.Signal(syscall.SIGTERM)
	deadline := time.Now().Add(patience)
	for s.child.Process.Signal(syscall.Signal(0)) == nil {
		if time.Now().After(deadline) {
			fmt.Fprintf(os.Stderr, "%s does not end; its log:\n%s\n", s.name, s.logged())
			_ = s.child.Process.Kill()
		}
		time.Sleep(2 * time.Millisecond)
	}
	s.child = nil
}

func (s *server) reload() error {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.child == nil {
		return fmt.Errorf("%s does not run", s.name)
	}
	seen := len(s.logged())
	if err := s.child.Process.Signal(syscall.SIGHUP); err != nil {
		return err
	}
	return s.await(seen, "Reloaded server configuration", nil)
}
