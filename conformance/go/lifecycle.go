package main

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
)

// lifecycle holds the scenes about connections: their begin, their end and what survives it.
var lifecycle = []scene{
	{"what the server says of itself", "server_name: \"called-so\"\nmax_payload: 54321", selfDescription},
	{"flush and round trip", "", flushAndRoundTrip},
	{"drain of a connection", "", drainConnection},
	{"drain of a subscription", "", drainSubscription},
	{"reconnect after a restart", "", reconnect},
	{"buffered while away", "", bufferedWhileAway},
	{"lame duck", "", lameDuck},
	{"stop by a signal", "", stopBySignal},
	{"stale connection", "ping_interval: \"300ms\"\nping_max: 1", staleConnection},
	{"pings of the client", "", clientPings},
}

func selfDescription(s *Server) error {
	return withClient(s, func(c *nats.Conn) error {
		if len(c.ConnectedServerId()) != 56 || !strings.HasPrefix(c.ConnectedServerId(), "N") {
			return fmt.Errorf("id %q", c.ConnectedServerId())
		}
		if !strings.HasPrefix(c.ConnectedServerVersion(), "2.") {
			return fmt.Errorf("version %q", c.ConnectedServerVersion())
		}
		if err := equal(c.ConnectedServerName(), "called-so"); err != nil {
			return err
		}
		if err := equal(c.MaxPayload(), 54321); err != nil {
			return err
		}
		if id, err := c.GetClientID(); err != nil || id == 0 {
			return fmt.Errorf("client id %d, %w", id, err)
		}
		if ip, err := c.GetClientIP(); err != nil || ip.String() != "127.0.0.1" {
			return fmt.Errorf("client address %v, %w", ip, err)
		}
		if c.AuthRequired() || c.TLSRequired() {
			return errors.New("asks for what it does not need")
		}
		return nil
	}, nats.Name("curious"))
}

func flushAndRoundTrip(s *Server) error {
	return withClient(s, func(c *nats.Conn) error {
		for range 100 {
			if err := c.FlushTimeout(patience); err != nil {
				return err
			}
		}
		trip, err := c.RTT()
		if err == nil && (trip <= 0 || trip > time.Second) {
			return fmt.Errorf("a round trip of %v", trip)
		}
		return err
	})
}

func drainConnection(s *Server) error {
	closed := make(chan struct{})
	option := nats.ClosedHandler(func(*nats.Conn) { close(closed) })
	return withClient(s, func(sender *nats.Conn) error {
		return withClient(s, func(c *nats.Conn) error {
			handled := make(chan struct{}, 1000)
			_, err := c.Subscribe("slow", func(m *nats.Msg) {
				time.Sleep(time.Millisecond)
				_ = m.Respond(nil)
				handled <- struct{}{}
			})
			if err != nil {
				return err
			}
			if err := c.FlushTimeout(patience); err != nil {
				return err
			}
			answers, err := sender.SubscribeSync("answers")
			if err != nil {
				return err
			}
			for range 200 {
				if err := sender.PublishRequest("slow", "answers", nil); err != nil {
					return err
				}
			}
			if err := sender.FlushTimeout(patience); err != nil {
				return err
			}
			if err := c.Drain(); err != nil {
				return err
			}
			if _, err := await(closed, "end of the drain"); err != nil {
				return err
			}
			if err := sender.FlushTimeout(patience); err != nil {
				return err
			}
			return equal([2]int{len(handled), drainCount(answers)}, [2]int{200, 200})
		}, option)
	})
}

func drainSubscription(s *Server) error {
	return withClient(s, func(c *nats.Conn) error {
		handled := make(chan struct{}, 100)
		sub, err := c.Subscribe("d", func(*nats.Msg) { handled <- struct{}{} })
		if err != nil {
			return err
		}
		for range 50 {
			if err := c.Publish("d", nil); err != nil {
				return err
			}
		}
		if err := sub.Drain(); err != nil {
			return err
		}
		for range 50 {
			if _, err := await(handled, "drained message"); err != nil {
				return err
			}
		}
		_, err = c.Request("d", nil, patience)
		if !errors.Is(err, nats.ErrNoResponders) {
			return fmt.Errorf("after the drain: %v", err)
		}
		return nil
	})
}

func reconnect(s *Server) error {
	lost, found := make(chan error, 1), make(chan struct{}, 1)
	return withClient(s, func(c *nats.Conn) error {
		before := c.ConnectedServerId()
		sub, err := c.SubscribeSync("again.*")
		if err != nil {
			return err
		}
		queue, err := c.QueueSubscribeSync("again.*", "q")
		if err != nil {
			return err
		}
		s.Stop()
		if _, err := await(lost, "disconnect"); err != nil {
			return err
		}
		if err := s.Start(); err != nil {
			return err
		}
		if _, err := await(found, "reconnect"); err != nil {
			return err
		}
		if c.ConnectedServerId() == before {
			return errors.New("the restarted server has the same id")
		}
		if err := c.Publish("again.x", nil); err != nil {
			return err
		}
		if _, err := sub.NextMsg(patience); err != nil {
			return err
		}
		_, err = queue.NextMsg(patience)
		return err
	}, reconnecting(lost, found)...)
}

func reconnecting(lost chan<- error, found chan<- struct{}) []nats.Option {
	return []nats.Option{
		nats.ReconnectWait(20 * time.Millisecond),
		nats.MaxReconnects(-1),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { lost <- err }),
		nats.ReconnectHandler(func(*nats.Conn) { found <- struct{}{} }),
	}
}

func bufferedWhileAway(s *Server) error {
	lost, found := make(chan error, 1), make(chan struct{}, 1)
	return withClient(s, func(c *nats.Conn) error {
		sub, err := c.SubscribeSync("kept")
		if err != nil {
			return err
		}
		s.Stop()
		if _, err := await(lost, "disconnect"); err != nil {
			return err
		}
		for range 100 {
			if err := c.Publish("kept", []byte("in the meantime")); err != nil {
				return err
			}
		}
		if err := s.Start(); err != nil {
			return err
		}
		if _, err := await(found, "reconnect"); err != nil {
			return err
		}
		if err := c.FlushTimeout(patience); err != nil {
			return err
		}
		return equal(drainCount(sub), 100)
	}, reconnecting(lost, found)...)
}

func lameDuck(s *Server) error {
	leaving := make(chan struct{}, 1)
	return withClient(s, func(c *nats.Conn) error {
		if err := s.Signal(syscall.SIGUSR2); err != nil {
			return err
		}
		if _, err := await(leaving, "notice of the lame duck"); err != nil {
			return err
		}
		// It goes on serving those that it has, and takes no others.
		if err := c.FlushTimeout(patience); err != nil {
			return err
		}
		deadline := time.Now().Add(patience)
		for time.Now().Before(deadline) {
			late, err := nats.Connect(s.URL(), nats.Timeout(time.Second))
			if err != nil {
				return nil
			}
			late.Close()
		}
		return errors.New("it still takes new connections")
	}, nats.LameDuckModeHandler(func(*nats.Conn) { leaving <- struct{}{} }))
}

func stopBySignal(s *Server) error {
	lost := make(chan error, 1)
	return withClient(s, func(c *nats.Conn) error {
		if err := s.Signal(syscall.SIGTERM); err != nil {
			return err
		}
		if _, err := await(lost, "disconnect"); err != nil {
			return err
		}
		ended := make(chan error, 1)
		go func() { ended <- s.child.Wait() }()
		_, err := await(ended, "end of the process")
		return err
	}, nats.NoReconnect(), nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { lost <- err }))
}

func staleConnection(s *Server) error {
	return withClient(s, func(healthy *nats.Conn) error {
		mute, err := dialRaw(s)
		if err != nil {
			return err
		}
		defer mute.Close()
		if err := mute.told("-ERR 'Stale Connection'"); err != nil {
			return err
		}
		return healthy.FlushTimeout(patience)
	})
}

func clientPings(s *Server) error {
	lost := make(chan error, 1)
	return withClient(s, func(c *nats.Conn) error {
		select {
		case err := <-lost:
			return fmt.Errorf("lost: %w", err)
		case <-time.After(300 * time.Millisecond):
			return c.FlushTimeout(patience)
		}
	}, nats.PingInterval(10*time.Millisecond), nats.MaxPingsOutstanding(5), nats.NoReconnect(),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { lost <- err }))
}
