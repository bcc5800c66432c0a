// Package test stands in for github.com/nats-io/nats-server/v2/test in other people's tests.
package test

import (
	"fmt"
	"time"

	"myelin.test/outside/server"
)

// DefaultTestOptions are what tests start from.
var DefaultTestOptions = server.Options{Host: "127.0.0.1", Port: 4222, NoLog: true, NoSigs: true}

// RunServer starts a server and returns when it is ready.
func RunServer(options *server.Options) *server.Server {
	if options == nil {
		options = &DefaultTestOptions
	}
	copied := *options
	s, err := server.NewServer(&copied)
	if err != nil {
		panic(fmt.Sprintf("no server: %v", err))
	}
	s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		panic("the server is not ready")
	}
	return s
}

// RunDefaultServer starts a server on the port that all clients know.
func RunDefaultServer() *server.Server { return RunServer(&DefaultTestOptions) }

// RunRandClientPortServer starts a server on a free port.
func RunRandClientPortServer() *server.Server {
	options := DefaultTestOptions
	options.Port = -1
	return RunServer(&options)
}

// RunServerWithConfig starts a server with a configuration file.
func RunServerWithConfig(path string) (*server.Server, *server.Options) {
	options, err := server.ProcessConfigFile(path)
	if err != nil {
		panic(fmt.Sprintf("configuration %s: %v", path, err))
	}
	return RunServer(options), options
}
