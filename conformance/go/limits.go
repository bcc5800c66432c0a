package main

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// limits holds the scenes in which somebody asks for too much.
var limits = []scene{
	{"payload above the limit, seen by the client", "max_payload: 1024", payloadSeenByClient},
	{"payload above the limit, seen by the server", "max_payload: 1024", payloadSeenByServer},
	{"slow subscription", "", slowSubscription},
	{"slow connection", "max_pending: 1MB\nwrite_deadline: \"500ms\"", slowConnection},
	{"too many connections", "max_connections: 2", tooManyConnections},
	{"too many subscriptions", "max_subscriptions: 3", tooManySubscriptions},
	{"control line too long", "max_control_line: 256", controlLineTooLong},
	{"what is no protocol", "", noProtocol},
}

func payloadSeenByClient(s *Server) error {
	return withClient(s, func(c *nats.Conn) error {
		if err := c.Publish("big", make([]byte, 1025)); !errors.Is(err, nats.ErrMaxPayload) {
			return fmt.Errorf("one byte too many: %v", err)
		}
		if err := c.Publish("big", make([]byte, 1024)); err != nil {
			return err
		}
		return c.FlushTimeout(patience)
	})
}

func payloadSeenByServer(s *Server) error {
	return toldBeforeTheEnd(s, "PUB big 1025\r\n", "-ERR 'Maximum Payload Violation'")
}

func controlLineTooLong(s *Server) error {
	return toldBeforeTheEnd(s, "SUB "+strings.Repeat("x", 300)+" 1\r\n", "-ERR 'maximum control line exceeded'")
}

func noProtocol(s *Server) error {
	return toldBeforeTheEnd(s, "GET / HTTP/1.1\r\n\r\n", "-ERR 'Unknown Protocol Operation'")
}

func toldBeforeTheEnd(s *Server, says, want string) error {
	conn, err := dialRaw(s)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := fmt.Fprint(conn, says); err != nil {
		return err
	}
	return conn.told(want)
}

func slowSubscription(s *Server) error {
	told := make(chan error, 100)
	return withClient(s, func(c *nats.Conn) error {
		sub, err := c.SubscribeSync("flood")
		if err != nil {
			return err
		}
		if err := sub.SetPendingLimits(10, 1024*1024); err != nil {
			return err
		}
		for range 50 {
			if err := c.Publish("flood", nil); err != nil {
				return err
			}
		}
		if err := c.FlushTimeout(patience); err != nil {
			return err
		}
		err, late := await(told, "slow consumer")
		if late != nil {
			return late
		}
		if !errors.Is(err, nats.ErrSlowConsumer) {
			return fmt.Errorf("the error is %v", err)
		}
		dropped, err := sub.Dropped()
		if err != nil {
			return err
		}
		// The first NextMsg reports the loss, the others give what was kept.
		if _, err := sub.NextMsg(patience); !errors.Is(err, nats.ErrSlowConsumer) {
			return fmt.Errorf("the subscription says %v", err)
		}
		return equal([2]int{dropped, drainCount(sub)}, [2]int{40, 10})
	}, telling(told))
}

// slowConnection stops reading: the server has to cut it off, and nobody else may notice.
func slowConnection(s *Server) error {
	return withClient(s, func(c *nats.Conn) error {
		lazy, err := dialRaw(s)
		if err != nil {
			return err
		}
		defer lazy.Close()
		if err := lazy.Conn.(*net.TCPConn).SetReadBuffer(4096); err != nil {
			return err
		}
		if _, err := fmt.Fprint(lazy, "SUB flood 1\r\n"); err != nil {
			return err
		}
		sub, err := c.SubscribeSync("flood")
		if err != nil {
			return err
		}
		if err := c.FlushTimeout(patience); err != nil {
			return err
		}
		for i := range 200 {
			if err := c.Publish("flood", make([]byte, 100_000)); err != nil {
				return err
			}
			if _, err := sub.NextMsg(patience); err != nil {
				return fmt.Errorf("message %d to the one that reads: %w", i, err)
			}
		}
		return hungUp(lazy)
	})
}

// hungUp waits for the server to have closed a connection whose bytes nobody reads: writing fails then.
func hungUp(lazy raw) error {
	deadline := time.Now().Add(2 * patience)
	for time.Now().Before(deadline) {
		if _, err := fmt.Fprint(lazy, "PING\r\n"); err != nil {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return errors.New("the lazy one is still connected")
}

func tooManyConnections(s *Server) error {
	return withClient(s, func(*nats.Conn) error {
		return withClient(s, func(*nats.Conn) error {
			// A client that is still writing its CONNECT may see a broken pipe instead of the reason.
			third, err := dialSilent(s)
			if err != nil {
				return err
			}
			defer third.Close()
			return third.told("-ERR 'maximum connections exceeded'")
		})
	})
}

func tooManySubscriptions(s *Server) error {
	told := make(chan error, 10)
	return withClient(s, func(c *nats.Conn) error {
		for range 4 {
			if _, err := c.SubscribeSync("many"); err != nil {
				return err
			}
		}
		err, late := await(told, "maximum of subscriptions")
		if late != nil {
			return late
		}
		if !errors.Is(err, nats.ErrMaxSubscriptionsExceeded) {
			return fmt.Errorf("the error is %v", err)
		}
		return c.FlushTimeout(patience)
	}, telling(told))
}
