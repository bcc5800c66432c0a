// The server that tests start is a process: the program that TESTED_SERVER names.
package server

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"
)

type outside struct {
	room   string
	config string
	flags  []string
	child  *exec.Cmd
	ended  chan struct{}
	id     string
	name   string
}

var (
	outsideLock sync.Mutex
	outsides    = map[*Server]*outside{}
	outsideRuns []*outside
)

func (s *Server) outside() *outside {
	outsideLock.Lock()
	defer outsideLock.Unlock()
	return outsides[s]
}

// outsidePorts are those that were handed out: the system gives a port again that is not used yet.
var outsidePorts sync.Map

func outsidePort() int {
	for {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return 0
		}
		port := l.Addr().(*net.TCPAddr).Port
		_ = l.Close()
		if _, taken := outsidePorts.LoadOrStore(port, true); !taken {
			return port
		}
	}
}

var (
	hasPool      = regexp.MustCompile(`(?m)pool_size\s*[:=]`)
	clusterBlock = regexp.MustCompile(`(?m)^\s*cluster\s*[:=]?\s*\{`)
)

// withoutPool is where a configuration is with what the package's tests set beside their files: one route per server.
func withoutPool(path string, body []byte, opts *Options) string {
	if opts.Cluster.PoolSize >= 0 || hasPool.Match(body) || !clusterBlock.Match(body) {
		return path
	}
	body = clusterBlock.ReplaceAll(body, []byte("cluster {\n  pool_size: -1\n  compression: off\n"))
	// Beside the original, for what it includes.
	beside, err := os.CreateTemp(filepath.Dir(path), "outside-*.conf")
	if err != nil {
		panic(err)
	}
	defer beside.Close()
	if _, err := beside.Write(body); err != nil {
		panic(err)
	}
	return beside.Name()
}

var hasStoreDir = regexp.MustCompile(`(?m)store(_dir)?\s*[:=]`)

// Start runs the process.
func (s *Server) Start() {
	opts := s.getOpts()
	room, _ := os.MkdirTemp("", "outside")
	o := &outside{room: room}
	if opts.Port <= 0 {
		opts.Port = outsidePort()
	}
	var flags []string
	host := opts.Host
	if host == "" {
		host = "0.0.0.0"
	}
	flags = append(flags, "-a", host, "-p", fmt.Sprint(opts.Port))
	if opts.HTTPPort == 0 && opts.HTTPSPort == 0 {
		opts.HTTPPort = -1
	}
	if opts.HTTPPort < 0 {
		opts.HTTPPort = outsidePort()
	}
	if opts.HTTPPort > 0 {
		flags = append(flags, "-m", fmt.Sprint(opts.HTTPPort))
	}
	flags = append(flags, "-l", filepath.Join(room, "log"))
	o.config = opts.ConfigFile
	if o.config == "" {
		o.config = filepath.Join(room, "server.conf")
		if err := os.WriteFile(o.config, []byte(renderOutside(opts)), 0o600); err != nil {
			panic(err)
		}
	} else {
		body, _ := os.ReadFile(o.config)
		o.config = withoutPool(o.config, body, opts)
		if !hasStoreDir.Match(body) && opts.JetStream {
			sd := opts.StoreDir
			if sd == "" {
				sd = filepath.Join(room, "store")
				opts.StoreDir = sd
			}
			flags = append(flags, "-sd", sd)
		}
	}
	flags = append([]string{"-c", o.config}, flags...)
	if os.Getenv("OUTSIDE_DEBUG") != "" || opts.Debug {
		flags = append(flags, "-D")
	}
	o.flags = flags
	o.run()
	outsideLock.Lock()
	outsides[s] = o
	outsideLock.Unlock()
	s.mu.Lock()
	select {
	case <-s.startupComplete:
	default:
		close(s.startupComplete)
	}
	s.mu.Unlock()
	s.running.Store(true)
}

func (o *outside) run() {
	o.child = exec.Command(os.Getenv("TESTED_SERVER"), o.flags...)
	o.child.Stderr, o.child.Stdout = os.Stderr, os.Stderr
	o.child.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := o.child.Start(); err != nil {
		panic(err)
	}
	ended := make(chan struct{})
	child := o.child
	go func() { _ = child.Wait(); close(ended) }()
	o.ended = ended
}

func (o *outside) log() []byte {
	text, _ := os.ReadFile(filepath.Join(o.room, "log"))
	return text
}

func (s *Server) readyForConnections(d time.Duration) error {
	end := time.Now().Add(max(d, 20*time.Second))
	for time.Now().Before(end) {
		o := s.outside()
		if o == nil {
			time.Sleep(5 * time.Millisecond)
			continue
		}
		if bytes.Contains(o.log(), []byte("Server is ready")) {
			// Tests read the port that the system gave from the options.
			if address := s.ClusterAddr(); address != nil {
				s.getOpts().Cluster.Port = address.Port
			}
			if v, err := s.Varz(nil); err == nil {
				if v.LeafNode.Port > 0 {
					s.getOpts().LeafNode.Port = v.LeafNode.Port
				}
				if v.Gateway.Port > 0 {
					s.getOpts().Gateway.Port = v.Gateway.Port
				}
				if v.Websocket.Port > 0 {
					s.getOpts().Websocket.Port = v.Websocket.Port
				}
			}
			return nil
		}
		select {
		case <-o.ended:
			return fmt.Errorf("the process ended: %s", o.log())
		case <-time.After(5 * time.Millisecond):
		}
	}
	return errors.New("the process is not ready")
}

// Shutdown ends the process.
func (s *Server) Shutdown() {
	if s == nil {
		return
	}
	if !s.shutdown.CompareAndSwap(false, true) {
		return
	}
	s.running.Store(false)
	if o := s.outside(); o != nil {
		_ = o.child.Process.Signal(syscall.SIGTERM)
		select {
		case <-o.ended:
		case <-time.After(20 * time.Second):
			fmt.Fprintf(os.Stderr, "DOES NOT END\n")
			_ = o.child.Process.Kill()
			<-o.ended
		}
		log := o.log()
		if bytes.Contains(log, []byte("panicked")) || bytes.Contains(log, []byte("panic:")) {
			fmt.Fprintf(os.Stderr, "PANIC IN THE LOG\n%s\n", log)
		}
		if os.Getenv("OUTSIDE_LOG") != "" {
			fmt.Fprintf(os.Stderr, "config:\n")
			b, _ := os.ReadFile(o.config)
			fmt.Fprintf(os.Stderr, "%s\n%s\n", b, log)
		}
		os.RemoveAll(o.room)
	}
	close(s.shutdownComplete)
}

// LameDuckShutdown asks for lame duck mode.
func (s *Server) LameDuckShutdown() { s.lameDuckMode() }

func (s *Server) lameDuckMode() {
	o := s.outside()
	_ = o.child.Process.Signal(syscall.SIGUSR2)
	<-o.ended
	if s.shutdown.CompareAndSwap(false, true) {
		close(s.shutdownComplete)
	}
}

// Reload asks the process for it.
func (s *Server) Reload() error {
	o := s.outside()
	count := func() (int, int) {
		log := o.log()
		return bytes.Count(log, []byte("Reloaded server configuration")), bytes.Count(log, []byte("Failed to reload server configuration"))
	}
	good, bad := count()
	_ = o.child.Process.Signal(syscall.SIGHUP)
	end := time.Now().Add(10 * time.Second)
	for time.Now().Before(end) {
		g, b := count()
		if b > bad {
			log := string(o.log())
			line := log[strings.LastIndex(log, "Failed to reload server configuration")+len("Failed to reload server configuration: "):]
			if i := strings.IndexByte(line, '\n'); i >= 0 {
				line = line[:i]
			}
			return errors.New(line)
		}
		if g > good {
			return nil
		}
		time.Sleep(5 * time.Millisecond)
	}
	return errors.New("no reload in time")
}

func (s *Server) outsidePage(path string, document any) error {
	resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d%s", s.getOpts().HTTPPort, path))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	return json.Unmarshal(body, document)
}

// Varz asks the process.
func (s *Server) Varz(*VarzOptions) (*Varz, error) {
	var v Varz
	return &v, s.outsidePage("/varz", &v)
}

// Connz asks the process.
func (s *Server) Connz(o *ConnzOptions) (*Connz, error) {
	q := url.Values{}
	if o != nil {
		if o.Sort != "" {
			q.Set("sort", string(o.Sort))
		}
		if o.Username {
			q.Set("auth", "1")
		}
		if o.SubscriptionsDetail {
			q.Set("subs", "detail")
		} else if o.Subscriptions {
			q.Set("subs", "1")
		}
		if o.Offset != 0 {
			q.Set("offset", fmt.Sprint(o.Offset))
		}
		if o.Limit != 0 {
			q.Set("limit", fmt.Sprint(o.Limit))
		}
		if o.CID != 0 {
			q.Set("cid", fmt.Sprint(o.CID))
		}
		if o.MQTTClient != "" {
			q.Set("mqtt_client", o.MQTTClient)
		}
		q.Set("state", map[ConnState]string{ConnOpen: "open", ConnClosed: "closed", ConnAll: "any"}[o.State])
		if o.User != "" {
			q.Set("user", o.User)
		}
		if o.Account != "" {
			q.Set("acc", o.Account)
		}
		if o.FilterSubject != "" {
			q.Set("filter_subject", o.FilterSubject)
		}
	}
	var v Connz
	resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/connz?%s", s.getOpts().HTTPPort, q.Encode()))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != 200 {
		return nil, errors.New(string(body))
	}
	return &v, json.Unmarshal(body, &v)
}

// Subsz asks the process.
func (s *Server) Subsz(o *SubszOptions) (*Subsz, error) {
	q := url.Values{}
	if o != nil {
		if o.Subscriptions {
			q.Set("subs", "1")
		}
		if o.Offset != 0 {
			q.Set("offset", fmt.Sprint(o.Offset))
		}
		if o.Limit != 0 {
			q.Set("limit", fmt.Sprint(o.Limit))
		}
		if o.Account != "" {
			q.Set("acc", o.Account)
		}
		if o.Test != "" {
			q.Set("test", o.Test)
		}
	}
	var v Subsz
	return &v, s.outsidePage("/subsz?"+q.Encode(), &v)
}

// Accountz asks the process.
func (s *Server) Accountz(o *AccountzOptions) (*Accountz, error) {
	q := url.Values{}
	if o != nil && o.Account != "" {
		q.Set("acc", o.Account)
	}
	var v Accountz
	return &v, s.outsidePage("/accountz?"+q.Encode(), &v)
}

// Jsz asks the process.
func (s *Server) Jsz(o *JSzOptions) (*JSInfo, error) {
	q := url.Values{}
	if o != nil {
		for name, is := range map[string]bool{"accounts": o.Accounts, "streams": o.Streams, "consumers": o.Consumer, "config": o.Config,
			"leader-only": o.LeaderOnly, "raft": o.RaftGroups, "stream-leader-only": o.StreamLeaderOnly, "direct-consumers": o.DirectConsumer} {
			if is {
				q.Set(name, "1")
			}
		}
		if o.Account != "" {
			q.Set("acc", o.Account)
		}
		if o.Offset != 0 {
			q.Set("offset", fmt.Sprint(o.Offset))
		}
		if o.Limit != 0 {
			q.Set("limit", fmt.Sprint(o.Limit))
		}
	}
	var v JSInfo
	return &v, s.outsidePage("/jsz?"+q.Encode(), &v)
}

func (s *Server) healthz(o *HealthzOptions) *HealthStatus { return s.Healthz(o) }

// Healthz asks the process.
func (s *Server) Healthz(o *HealthzOptions) *HealthStatus {
	q := url.Values{}
	if o != nil {
		for name, is := range map[string]bool{"js-enabled-only": o.JSEnabledOnly, "js-server-only": o.JSServerOnly, "details": o.Details, "js-meta-only": o.JSMetaOnly} {
			if is {
				q.Set(name, "true")
			}
		}
		for name, value := range map[string]string{"account": o.Account, "stream": o.Stream, "consumer": o.Consumer} {
			if value != "" {
				q.Set(name, value)
			}
		}
	}
	var v HealthStatus
	if err := s.outsidePage("/healthz?"+q.Encode(), &v); err != nil {
		v.Status, v.Error = "error", err.Error()
	}
	return &v
}

// NumClients counts connections.
func (s *Server) NumClients() int {
	v, err := s.Varz(nil)
	if err != nil {
		return 0
	}
	return v.Connections
}

// NumSubscriptions counts subscriptions.
func (s *Server) NumSubscriptions() uint32 {
	v, _ := s.Varz(nil)
	return v.Subscriptions
}

// NumSlowConsumers counts slow consumers.
func (s *Server) NumSlowConsumers() int64 {
	v, _ := s.Varz(nil)
	return v.SlowConsumers
}

// ID is the process's.
func (s *Server) ID() string {
	o := s.outside()
	if o == nil {
		return s.info.ID
	}
	if o.id == "" {
		v, _ := s.Varz(nil)
		o.id, o.name = v.ID, v.Name
	}
	return o.id
}

// Name is the process's.
func (s *Server) Name() string {
	o := s.outside()
	if o == nil {
		return s.info.Name
	}
	s.ID()
	return o.name
}

// NumRoutes counts links.
func (s *Server) NumRoutes() int {
	v, err := s.Varz(nil)
	if err != nil {
		return 0
	}
	return v.Routes
}

func (s *Server) numRoutes() int { return s.NumRoutes() }

// NumRemotes counts the servers behind them.
func (s *Server) NumRemotes() int {
	v, err := s.Varz(nil)
	if err != nil {
		return 0
	}
	return v.Remotes
}

// Routez asks the process.
func (s *Server) Routez(o *RoutezOptions) (*Routez, error) {
	path := "/routez"
	if o != nil && o.SubscriptionsDetail {
		path += "?subs=detail"
	} else if o != nil && o.Subscriptions {
		path += "?subs=1"
	}
	var v Routez
	return &v, s.outsidePage(path, &v)
}

// NumLeafNodes counts links with leaf nodes and hubs.
func (s *Server) NumLeafNodes() int {
	v, err := s.Varz(nil)
	if err != nil {
		return 0
	}
	return v.Leafs
}

// Leafz asks the process.
func (s *Server) Leafz(o *LeafzOptions) (*Leafz, error) {
	q := url.Values{}
	if o != nil && o.Subscriptions {
		q.Set("subs", "1")
	}
	if o != nil && o.Account != "" {
		q.Set("acc", o.Account)
	}
	var v Leafz
	return &v, s.outsidePage("/leafz?"+q.Encode(), &v)
}

// Gatewayz asks the process.
func (s *Server) Gatewayz(o *GatewayzOptions) (*Gatewayz, error) {
	q := url.Values{}
	if o != nil {
		for name, value := range map[string]string{"gw_name": o.Name, "acc_name": o.AccountName} {
			if value != "" {
				q.Set(name, value)
			}
		}
		if o.Accounts {
			q.Set("accs", "1")
		}
		if o.AccountSubscriptionsDetail {
			q.Set("subs", "detail")
		} else if o.AccountSubscriptions {
			q.Set("subs", "1")
		}
	}
	var v Gatewayz
	return &v, s.outsidePage("/gatewayz?"+q.Encode(), &v)
}

// NumOutboundGateways counts links with other clusters that the process has dialled.
func (s *Server) NumOutboundGateways() int {
	v, err := s.Gatewayz(nil)
	if err != nil {
		return 0
	}
	return len(v.OutboundGateways)
}

func (s *Server) numOutboundGateways() int { return s.NumOutboundGateways() }

func (s *Server) numInboundGateways() int {
	v, err := s.Gatewayz(nil)
	count := 0
	if err == nil {
		for _, links := range v.InboundGateways {
			count += len(links)
		}
	}
	return count
}

// GatewayAddr is where other clusters connect.
func (s *Server) GatewayAddr() *net.TCPAddr {
	opts := s.getOpts()
	host, port := opts.Gateway.Host, opts.Gateway.Port
	if host == "" || host == "0.0.0.0" {
		host = "127.0.0.1"
	}
	if v, err := s.Varz(nil); err == nil && v.Gateway.Port > 0 {
		port = v.Gateway.Port
	}
	if port <= 0 {
		return nil
	}
	a, _ := net.ResolveTCPAddr("tcp", net.JoinHostPort(host, fmt.Sprint(port)))
	return a
}

// ClusterName is the process's.
func (s *Server) ClusterName() string {
	v, err := s.Varz(nil)
	if err != nil {
		return ""
	}
	return v.Cluster.Name
}

// ClusterAddr is where routes connect.
func (s *Server) ClusterAddr() *net.TCPAddr {
	opts := s.getOpts()
	host, port := opts.Cluster.Host, opts.Cluster.Port
	if host == "" || host == "0.0.0.0" {
		host = "127.0.0.1"
	}
	if v, err := s.Varz(nil); err == nil && v.Cluster.Port > 0 {
		port = v.Cluster.Port
	}
	if port <= 0 {
		return nil
	}
	a, _ := net.ResolveTCPAddr("tcp", net.JoinHostPort(host, fmt.Sprint(port)))
	return a
}

// outsideInterest says whether the process knows somebody who wants a subject.
func (s *Server) outsideInterest(account, subject string) bool {
	if v, err := s.Subsz(&SubszOptions{Subscriptions: true, Account: account, Test: subject}); err == nil && v.Total > 0 {
		return true
	}
	if v, err := s.Leafz(&LeafzOptions{Subscriptions: true, Account: account}); err == nil {
		for _, leaf := range v.Leafs {
			for _, sub := range leaf.Subs {
				if subjectIsSubsetMatch(subject, sub) {
					return true
				}
			}
		}
	}
	v, err := s.Routez(&RoutezOptions{SubscriptionsDetail: true})
	if err != nil {
		return false
	}
	for _, route := range v.Routes {
		for _, sub := range route.SubsDetail {
			if subjectIsSubsetMatch(subject, sub.Subject) {
				return true
			}
		}
	}
	return false
}

// Addr is where clients connect.
func (s *Server) Addr() net.Addr {
	opts := s.getOpts()
	host := opts.Host
	if host == "" || host == "0.0.0.0" {
		host = "127.0.0.1"
	}
	a, _ := net.ResolveTCPAddr("tcp", net.JoinHostPort(host, fmt.Sprint(opts.Port)))
	return a
}

// MonitorAddr is where the pages are.
func (s *Server) MonitorAddr() *net.TCPAddr {
	opts := s.getOpts()
	port := opts.HTTPPort
	if port <= 0 {
		port = opts.HTTPSPort
	}
	return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}
}

// JetStreamConfig says where the store is.
func (s *Server) JetStreamConfig() *JetStreamConfig {
	opts := s.getOpts()
	if !opts.JetStream {
		return nil
	}
	sd := opts.StoreDir
	if sd == "" {
		sd = filepath.Join(os.TempDir(), "nats")
	}
	if o := s.outside(); o != nil {
		if v, err := s.Varz(nil); err == nil && v.JetStream.Config != nil {
			return v.JetStream.Config
		}
	}
	return &JetStreamConfig{StoreDir: filepath.Join(sd, "jetstream")}
}

// StoreDir is where the store is.
func (s *Server) StoreDir() string { return s.JetStreamConfig().StoreDir }

// JetStreamEnabled says whether there are streams.
func (s *Server) JetStreamEnabled() bool {
	v, err := s.Varz(nil)
	return err == nil && v.JetStream.Config != nil
}

func duration(text *strings.Builder, name string, d time.Duration) {
	if d > 0 {
		fmt.Fprintf(text, "%s: %q\n", name, d.String())
	}
}

func renderSubjects(p *SubjectPermission) string {
	quote := func(l []string) string {
		var parts []string
		for _, e := range l {
			parts = append(parts, fmt.Sprintf("%q", e))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	text := "{ "
	if p.Allow != nil {
		text += "allow: " + quote(p.Allow) + " "
	}
	if p.Deny != nil {
		text += "deny: " + quote(p.Deny) + " "
	}
	return text + "}"
}

func renderPermissions(p *Permissions) string {
	if p == nil {
		return ""
	}
	text := ", permissions: { "
	if p.Publish != nil {
		text += "publish: " + renderSubjects(p.Publish) + " "
	}
	if p.Subscribe != nil {
		text += "subscribe: " + renderSubjects(p.Subscribe) + " "
	}
	if p.Response != nil {
		text += fmt.Sprintf("allow_responses: { max: %d, expires: %q } ", p.Response.MaxMsgs, p.Response.Expires)
	}
	return text + "}"
}

func renderUsers(users []*User, nkeys []*NkeyUser, account *Account) string {
	text := "users: [\n"
	for _, user := range users {
		if user.Account == account {
			text += fmt.Sprintf("{user: %q, password: %q%s}\n", user.Username, user.Password, renderPermissions(user.Permissions))
		}
	}
	for _, user := range nkeys {
		if user.Account == account {
			text += fmt.Sprintf("{nkey: %q%s}\n", user.Nkey, renderPermissions(user.Permissions))
		}
	}
	return text + "]"
}

func renderCluster(o *Options) string {
	c := &o.Cluster
	if c.Port < 0 {
		c.Port = outsidePort()
	}
	host := c.Host
	if host == "" {
		host = "0.0.0.0"
	}
	text := fmt.Sprintf("cluster {\n  listen: %q\n", net.JoinHostPort(host, fmt.Sprint(c.Port)))
	if c.Name != "" {
		text += fmt.Sprintf("name: %q\n", c.Name)
	}
	if c.PoolSize != 0 {
		text += fmt.Sprintf("pool_size: %d\n", c.PoolSize)
	}
	if len(c.PinnedAccounts) > 0 {
		text += fmt.Sprintf("accounts: [%s]\n", `"`+strings.Join(c.PinnedAccounts, `", "`)+`"`)
	}
	if c.Compression.Mode != "" && c.Compression.Mode != CompressionNotSupported {
		text += fmt.Sprintf("compression: %q\n", c.Compression.Mode)
	}
	if c.NoAdvertise {
		text += "no_advertise: true\n"
	}
	if c.Advertise != "" {
		text += fmt.Sprintf("advertise: %q\n", c.Advertise)
	}
	if c.ConnectRetries > 0 {
		text += fmt.Sprintf("connect_retries: %d\n", c.ConnectRetries)
	}
	if c.PingInterval > 0 {
		text += fmt.Sprintf("ping_interval: %q\n", c.PingInterval.String())
	}
	if c.MaxPingsOut > 0 {
		text += fmt.Sprintf("ping_max: %d\n", c.MaxPingsOut)
	}
	if c.Username != "" {
		text += fmt.Sprintf("authorization { user: %q, password: %q", c.Username, c.Password)
		if c.AuthTimeout > 0 {
			text += fmt.Sprintf(", timeout: %v", c.AuthTimeout)
		}
		text += " }\n"
	}
	if p := c.Permissions; p != nil {
		text += "permissions {\n"
		if p.Import != nil {
			text += "import: " + renderSubjects(p.Import) + "\n"
		}
		if p.Export != nil {
			text += "export: " + renderSubjects(p.Export) + "\n"
		}
		text += "}\n"
	}
	if len(o.Routes) > 0 {
		text += "routes: ["
		for _, route := range o.Routes {
			text += fmt.Sprintf("%q, ", route.String())
		}
		text += "]\n"
	}
	return text + "}\n"
}

func renderRemote(r *RemoteLeafOpts) string {
	text := "{ urls: ["
	for _, u := range r.URLs {
		text += fmt.Sprintf("%q, ", u.String())
	}
	text += "]\n"
	for name, value := range map[string]string{"account": r.LocalAccount, "credentials": r.Credentials, "nkey": r.Nkey,
		"compression": r.Compression.Mode} {
		if value != "" && value != CompressionNotSupported {
			text += fmt.Sprintf("%s: %q\n", name, value)
		}
	}
	for name, is := range map[string]bool{"hub": r.Hub, "no_randomize": r.NoRandomize, "disabled": r.Disabled,
		"isolate_leafnode_interest": r.LocalIsolation, "request_isolation": r.RequestIsolation,
		"ignore_discovered_servers": r.IgnoreDiscoveredServers, "ws_compression": r.Websocket.Compression,
		"ws_no_masking": r.Websocket.NoMasking} {
		if is {
			text += name + ": true\n"
		}
	}
	for name, list := range map[string][]string{"deny_imports": r.DenyImports, "deny_exports": r.DenyExports} {
		if len(list) > 0 {
			text += fmt.Sprintf("%s: [%s]\n", name, `"`+strings.Join(list, `", "`)+`"`)
		}
	}
	if r.Proxy.URL != "" {
		text += fmt.Sprintf("proxy { url: %q", r.Proxy.URL)
		if r.Proxy.Username != "" {
			text += fmt.Sprintf(", username: %q, password: %q", r.Proxy.Username, r.Proxy.Password)
		}
		if r.Proxy.Timeout > 0 {
			text += fmt.Sprintf(", timeout: %q", r.Proxy.Timeout.String())
		}
		text += " }\n"
	}
	if r.FirstInfoTimeout > 0 {
		text += fmt.Sprintf("first_info_timeout: %q\n", r.FirstInfoTimeout.String())
	}
	return text + "}\n"
}

func renderLeafNodes(o *Options) string {
	l := &o.LeafNode
	if l.Port == 0 && len(l.Remotes) == 0 {
		return ""
	}
	text := "leafnodes {\n"
	if l.Port < 0 {
		l.Port = outsidePort()
	}
	if l.Port > 0 {
		host := l.Host
		if host == "" {
			host = "0.0.0.0"
		}
		text += fmt.Sprintf("listen: %q\n", net.JoinHostPort(host, fmt.Sprint(l.Port)))
	}
	for name, value := range map[string]string{"advertise": l.Advertise, "min_version": l.MinVersion, "compression": l.Compression.Mode} {
		if value != "" && value != CompressionNotSupported {
			text += fmt.Sprintf("%s: %q\n", name, value)
		}
	}
	for name, is := range map[string]bool{"no_advertise": l.NoAdvertise, "isolate_leafnode_interest": l.IsolateLeafnodeInterest} {
		if is {
			text += name + ": true\n"
		}
	}
	if l.ReconnectInterval > 0 {
		text += fmt.Sprintf("reconnect: %q\n", l.ReconnectInterval.String())
	}
	if l.Username != "" || len(l.Users) > 0 || l.Account != "" {
		text += "authorization {\n"
		if l.Username != "" {
			text += fmt.Sprintf("user: %q, password: %q\n", l.Username, l.Password)
		}
		if l.Account != "" {
			text += fmt.Sprintf("account: %q\n", l.Account)
		}
		if l.AuthTimeout > 0 {
			text += fmt.Sprintf("timeout: %v\n", l.AuthTimeout)
		}
		if len(l.Users) > 0 {
			text += "users: ["
			for _, user := range l.Users {
				account := ""
				if user.Account != nil {
					account = fmt.Sprintf(", account: %q", user.Account.Name)
				}
				text += fmt.Sprintf("{user: %q, password: %q%s}\n", user.Username, user.Password, account)
			}
			text += "]\n"
		}
		text += "}\n"
	}
	if len(l.Remotes) > 0 {
		text += "remotes: [\n"
		for _, remote := range l.Remotes {
			text += renderRemote(remote)
		}
		text += "]\n"
	}
	return text + "}\n"
}

func renderGateway(o *Options) string {
	g := &o.Gateway
	if g.Port == 0 {
		return ""
	}
	if g.Port < 0 {
		g.Port = outsidePort()
	}
	host := g.Host
	if host == "" {
		host = "0.0.0.0"
	}
	text := fmt.Sprintf("gateway {\nname: %q\nlisten: %q\n", g.Name, net.JoinHostPort(host, fmt.Sprint(g.Port)))
	if g.Advertise != "" {
		text += fmt.Sprintf("advertise: %q\n", g.Advertise)
	}
	if g.ConnectRetries > 0 {
		text += fmt.Sprintf("connect_retries: %d\n", g.ConnectRetries)
	}
	for name, is := range map[string]bool{"connect_backoff": g.ConnectBackoff, "reject_unknown": g.RejectUnknown} {
		if is {
			text += name + ": true\n"
		}
	}
	if g.Username != "" || g.AuthTimeout > 0 {
		text += "authorization {\n"
		if g.Username != "" {
			text += fmt.Sprintf("user: %q, password: %q\n", g.Username, g.Password)
		}
		if g.AuthTimeout > 0 {
			text += fmt.Sprintf("timeout: %v\n", g.AuthTimeout)
		}
		text += "}\n"
	}
	text += "gateways: [\n"
	for _, r := range g.Gateways {
		text += fmt.Sprintf("{ name: %q, urls: [", r.Name)
		for _, u := range r.URLs {
			text += fmt.Sprintf("%q, ", u.String())
		}
		text += "] }\n"
	}
	return text + "]\n}\n"
}

func renderOutside(o *Options) string {
	var text strings.Builder
	if o.ServerName != "" {
		fmt.Fprintf(&text, "server_name: %q\n", o.ServerName)
	}
	if o.JetStream {
		text.WriteString("jetstream {\n  enabled: true\n")
		if o.StoreDir != "" {
			fmt.Fprintf(&text, "  store_dir: %q\n", o.StoreDir)
		}
		if o.JetStreamDomain != "" {
			fmt.Fprintf(&text, "  domain: %q\n", o.JetStreamDomain)
		}
		if o.JetStreamMaxMemory > 0 {
			fmt.Fprintf(&text, "  max_mem: %d\n", o.JetStreamMaxMemory)
		}
		if o.JetStreamMaxStore > 0 {
			fmt.Fprintf(&text, "  max_file: %d\n", o.JetStreamMaxStore)
		}
		if o.SyncAlways {
			text.WriteString("  sync_interval: always\n")
		}
		if o.NoJetStreamStrict {
			text.WriteString("  strict: false\n")
		}
		l := o.JetStreamLimits
		text.WriteString("limits {\n")
		if l.MaxRequestBatch > 0 {
			fmt.Fprintf(&text, "max_request_batch: %d\n", l.MaxRequestBatch)
		}
		if l.MaxAckPending > 0 {
			fmt.Fprintf(&text, "max_ack_pending: %d\n", l.MaxAckPending)
		}
		if l.MaxHAAssets > 0 {
			fmt.Fprintf(&text, "max_ha_assets: %d\n", l.MaxHAAssets)
		}
		if l.Duplicates > 0 {
			fmt.Fprintf(&text, "duplicate_window: %q\n", l.Duplicates)
		}
		if l.MaxBatchInflightPerStream != 0 {
			fmt.Fprintf(&text, "max_batch_inflight_per_stream: %d\n", l.MaxBatchInflightPerStream)
		}
		if l.MaxBatchInflightTotal != 0 {
			fmt.Fprintf(&text, "max_batch_inflight_total: %d\n", l.MaxBatchInflightTotal)
		}
		if l.MaxBatchSize != 0 {
			fmt.Fprintf(&text, "max_batch_size: %d\n", l.MaxBatchSize)
		}
		duration(&text, "max_batch_timeout", l.MaxBatchTimeout)
		text.WriteString("}\n}\n")
	}
	if o.SystemAccount != "" {
		fmt.Fprintf(&text, "system_account: %q\n", o.SystemAccount)
	}
	if o.NoSystemAccount {
		text.WriteString("no_system_account: true\n")
	}
	if len(o.Accounts) > 0 {
		text.WriteString("accounts {\n")
		for _, account := range o.Accounts {
			fmt.Fprintf(&text, "  %q: { %s }\n", account.Name, renderUsers(o.Users, o.Nkeys, account))
		}
		text.WriteString("}\n")
	}
	// After NewServer those without an account of their own are in the global one.
	if o.Username != "" {
		fmt.Fprintf(&text, "authorization { user: %q, password: %q\n", o.Username, o.Password)
		if o.AuthTimeout > 0 {
			fmt.Fprintf(&text, "timeout: %v\n", o.AuthTimeout)
		}
		text.WriteString("}\n")
	} else if o.Authorization != "" {
		fmt.Fprintf(&text, "authorization { token: %q }\n", o.Authorization)
	} else if len(o.Accounts) == 0 && len(o.Users)+len(o.Nkeys) > 0 {
		var acc *Account
		if len(o.Users) > 0 {
			acc = o.Users[0].Account
		} else {
			acc = o.Nkeys[0].Account
		}
		fmt.Fprintf(&text, "authorization { %s }\n", renderUsers(o.Users, o.Nkeys, acc))
	}
	if o.Cluster.Port != 0 {
		text.WriteString(renderCluster(o))
	}
	text.WriteString(renderLeafNodes(o))
	text.WriteString(renderGateway(o))
	if o.Websocket.Port != 0 && o.Websocket.NoTLS {
		if o.Websocket.Port < 0 {
			o.Websocket.Port = outsidePort()
		}
		fmt.Fprintf(&text, "websocket { listen: \"127.0.0.1:%d\", no_tls: true, compression: %v }\n", o.Websocket.Port, o.Websocket.Compression)
	}
	if o.NoAuthUser != "" {
		fmt.Fprintf(&text, "no_auth_user: %q\n", o.NoAuthUser)
	}
	if o.MaxPayload > 0 {
		fmt.Fprintf(&text, "max_payload: %d\n", o.MaxPayload)
	}
	if o.MaxPending > 0 {
		fmt.Fprintf(&text, "max_pending: %d\n", o.MaxPending)
	}
	if o.MaxConn > 0 {
		fmt.Fprintf(&text, "max_connections: %d\n", o.MaxConn)
	}
	if o.MaxSubs > 0 {
		fmt.Fprintf(&text, "max_subscriptions: %d\n", o.MaxSubs)
	}
	if o.MaxSubTokens > 0 {
		fmt.Fprintf(&text, "max_subscription_tokens: %d\n", o.MaxSubTokens)
	}
	if o.MaxControlLine > 0 {
		fmt.Fprintf(&text, "max_control_line: %d\n", o.MaxControlLine)
	}
	if o.MaxTracedMsgLen > 0 {
		fmt.Fprintf(&text, "max_traced_msg_len: %d\n", o.MaxTracedMsgLen)
	}
	if o.MaxClosedClients > 0 {
		fmt.Fprintf(&text, "max_closed_clients: %d\n", o.MaxClosedClients)
	}
	duration(&text, "ping_interval", o.PingInterval)
	if o.MaxPingsOut > 0 {
		fmt.Fprintf(&text, "ping_max: %d\n", o.MaxPingsOut)
	}
	duration(&text, "write_deadline", o.WriteDeadline)
	duration(&text, "lame_duck_duration", o.LameDuckDuration)
	if o.LameDuckGracePeriod > 0 {
		duration(&text, "lame_duck_grace_period", o.LameDuckGracePeriod)
	}
	if o.NoHeaderSupport {
		text.WriteString("no_header_support: true\n")
	}
	if o.NoSublistCache {
		text.WriteString("disable_sublist_cache: true\n")
	}
	if o.AlwaysEnableNonce {
		text.WriteString("always_enable_nonce: true\n")
	}
	if o.ConnectErrorReports > 0 {
		fmt.Fprintf(&text, "connect_error_reports: %d\n", o.ConnectErrorReports)
	}
	if o.ClientAdvertise != "" {
		fmt.Fprintf(&text, "client_advertise: %q\n", o.ClientAdvertise)
	}
	if o.HTTPBasePath != "" && o.HTTPBasePath != "/" {
		fmt.Fprintf(&text, "http_base_path: %q\n", o.HTTPBasePath)
	}
	if o.PortsFileDir != "" {
		fmt.Fprintf(&text, "ports_file_dir: %q\n", o.PortsFileDir)
	}
	if o.PidFile != "" {
		fmt.Fprintf(&text, "pid_file: %q\n", o.PidFile)
	}
	if len(o.Tags) > 0 {
		text.WriteString("server_tags: [")
		for _, t := range o.Tags {
			fmt.Fprintf(&text, "%q ", t)
		}
		text.WriteString("]\n")
	}
	if len(o.Metadata) > 0 {
		text.WriteString("server_metadata: {")
		for k, v := range o.Metadata {
			fmt.Fprintf(&text, "%q: %q\n", k, v)
		}
		text.WriteString("}\n")
	}
	if len(o.FeatureFlags) > 0 {
		text.WriteString("feature_flags: {")
		for k, v := range o.FeatureFlags {
			fmt.Fprintf(&text, "%q: %v\n", k, v)
		}
		text.WriteString("}\n")
	}
	_ = tls.VersionTLS12
	return text.String()
}
