// Command conformance drives a server binary with the official Go client and says in how many
// cases the client met what it expects of a server.
//
// It owns the servers that it starts and the list of cases; it never looks into the server: what
// it knows comes through the client.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// patience bounds every wait for something that has to happen.
const patience = 5 * time.Second

// scene is one case: a configuration and what a client does with a server that runs it.
type scene struct {
	name   string
	config string
	play   func(*Server) error
}

func main() {
	only := flag.String("only", "", "play only the scenes whose name contains this")
	withLater := flag.Bool("later", false, "also play the scenes for what Myelin does not offer yet")
	flag.Parse()
	binary, err := filepath.Abs(flag.Arg(0))
	if flag.NArg() != 1 || err != nil {
		fmt.Fprintln(os.Stderr, "usage: conformance [-later] SERVER_BINARY")
		os.Exit(2)
	}
	scenes := slices.Concat(messaging, lifecycle, security, limits, streams, publishing, batches, fastIngest, reading, schedules)
	if *withLater {
		scenes = append(scenes, later...)
	}
	scenes = slices.DeleteFunc(scenes, func(s scene) bool { return !strings.Contains(s.name, *only) })
	failed := 0
	for _, s := range scenes {
		if err := perform(binary, s); err != nil {
			failed++
			fmt.Printf("FAIL %s: %v\n", s.name, err)
		}
	}
	fmt.Printf("%d passed, %d failed\n", len(scenes)-failed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}

// perform gives the scene a server of its own, so that no scene sees another's traces.
func perform(binary string, s scene) (err error) {
	server, err := StartServer(binary, s.config)
	if err != nil {
		return err
	}
	defer server.Close()
	defer func() {
		if broken := recover(); broken != nil {
			err = fmt.Errorf("panic: %v", broken)
		}
	}()
	return s.play(server)
}
