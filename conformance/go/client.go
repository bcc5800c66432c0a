package main

import (
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// withClient lends a connection to body and closes it afterwards.
func withClient(s *Server, body func(*nats.Conn) error, options ...nats.Option) error {
	// Without a handler the client prints what it is told.
	quiet := nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})
	c, err := nats.Connect(s.URL(), append([]nats.Option{quiet}, options...)...)
	if err != nil {
		return err
	}
	defer c.Close()
	return body(c)
}

// drainCount takes what has arrived already: after a flush that is all that was sent before.
func drainCount(sub *nats.Subscription) int {
	count := 0
	for {
		if _, err := sub.NextMsg(50 * time.Millisecond); err != nil {
			return count
		}
		count++
	}
}

// await waits for one value; what says what did not come.
func await[T any](values <-chan T, what string) (T, error) {
	select {
	case value := <-values:
		return value, nil
	case <-time.After(patience):
		var none T
		return none, fmt.Errorf("no %s within %v", what, patience)
	}
}

func equal[T comparable](got, want T) error {
	if got != want {
		return fmt.Errorf("got %v, not %v", got, want)
	}
	return nil
}
