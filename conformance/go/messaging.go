package main

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// messaging holds the scenes in which messages reach those whom they should.
var messaging = []scene{
	{"publish and subscribe", "", publishAndSubscribe},
	{"payload of every size around the buffers", "", payloadSizes},
	{"wildcards", "", wildcards},
	{"queue group", "", queueGroup},
	{"request and reply", "", requestAndReply},
	{"request in the old style", "", oldStyleRequest},
	{"headers", "", headers},
	{"no responders", "", noResponders},
	{"no echo", "", noEcho},
	{"auto-unsubscribe", "", autoUnsubscribe},
	{"unsubscribe", "", unsubscribe},
	{"order of one publisher", "", order},
}

func publishAndSubscribe(s *Server) error {
	return withClient(s, func(c *nats.Conn) error {
		sub, err := c.SubscribeSync("foo")
		if err != nil {
			return err
		}
		if err := c.PublishRequest("foo", "back", []byte("hello")); err != nil {
			return err
		}
		m, err := sub.NextMsg(patience)
		if err != nil {
			return err
		}
		return equal(m.Subject+" "+m.Reply+" "+string(m.Data), "foo back hello")
	})
}

func payloadSizes(s *Server) error {
	return withClient(s, func(c *nats.Conn) error {
		sub, err := c.SubscribeSync("size")
		if err != nil {
			return err
		}
		for _, size := range []int{0, 1, 511, 512, 4095, 4097, 32768, 65535, 65537, 1 << 20} {
			payload := bytes.Repeat([]byte{byte(size), '\r', '\n'}, size/3+1)[:size]
			if err := c.Publish("size", payload); err != nil {
				return err
			}
			m, err := sub.NextMsg(patience)
			if err != nil {
				return fmt.Errorf("%d bytes: %w", size, err)
			}
			if !bytes.Equal(m.Data, payload) {
				return fmt.Errorf("%d bytes came as other %d bytes", size, len(m.Data))
			}
		}
		return nil
	})
}

func wildcards(s *Server) error {
	return withClient(s, func(c *nats.Conn) error {
		for filter, want := range map[string]int{"a.*": 2, "a.>": 3, "*.b": 2, ">": 5, "a.b": 1, "*": 1, "*.*.c": 1} {
			sub, err := c.SubscribeSync(filter)
			if err != nil {
				return err
			}
			for _, subject := range []string{"a", "a.b", "a.c", "a.b.c", "x.b"} {
				if err := c.Publish(subject, nil); err != nil {
					return err
				}
			}
			if err := c.FlushTimeout(patience); err != nil {
				return err
			}
			if got := drainCount(sub); got != want {
				return fmt.Errorf("%s got %d of 5, not %d", filter, got, want)
			}
			if err := sub.Unsubscribe(); err != nil {
				return err
			}
		}
		return nil
	})
}

func queueGroup(s *Server) error {
	return withClient(s, func(c *nats.Conn) error {
		const members, messages = 4, 400
		var subs []*nats.Subscription
		for range members {
			sub, err := c.QueueSubscribeSync("work", "workers")
			if err != nil {
				return err
			}
			subs = append(subs, sub)
		}
		plain, err := c.SubscribeSync("work")
		if err != nil {
			return err
		}
		for range messages {
			if err := c.Publish("work", nil); err != nil {
				return err
			}
		}
		if err := c.FlushTimeout(patience); err != nil {
			return err
		}
		total := 0
		for _, sub := range subs {
			got := drainCount(sub)
			if got == 0 {
				return errors.New("a member got nothing")
			}
			total += got
		}
		return equal([2]int{total, drainCount(plain)}, [2]int{messages, messages})
	})
}

func requestAndReply(s *Server) error {
	return withClient(s, func(c *nats.Conn) error { return askTwice(c) })
}

func oldStyleRequest(s *Server) error {
	return withClient(s, func(c *nats.Conn) error { return askTwice(c) }, nats.UseOldRequestStyle())
}

func askTwice(c *nats.Conn) error {
	_, err := c.Subscribe("double", func(m *nats.Msg) { _ = m.Respond(append(m.Data, m.Data...)) })
	if err != nil {
		return err
	}
	for _, question := range []string{"ab", "xyz"} {
		answer, err := c.Request("double", []byte(question), patience)
		if err != nil {
			return err
		}
		if err := equal(string(answer.Data), question+question); err != nil {
			return err
		}
	}
	return nil
}

func headers(s *Server) error {
	return withClient(s, func(c *nats.Conn) error {
		if !c.HeadersSupported() {
			return errors.New("headers are not offered")
		}
		sub, err := c.SubscribeSync("h")
		if err != nil {
			return err
		}
		m := nats.NewMsg("h")
		m.Header.Add("Colour", "red")
		m.Header.Add("Colour", "blue")
		m.Header.Add("Empty", "")
		m.Data = []byte("body")
		if err := c.PublishMsg(m); err != nil {
			return err
		}
		got, err := sub.NextMsg(patience)
		if err != nil {
			return err
		}
		return equal(fmt.Sprint(got.Header, string(got.Data)), fmt.Sprint(m.Header, "body"))
	})
}

func noResponders(s *Server) error {
	return withClient(s, func(c *nats.Conn) error {
		start := time.Now()
		_, err := c.Request("nobody", nil, patience)
		if !errors.Is(err, nats.ErrNoResponders) {
			return fmt.Errorf("got %v", err)
		}
		if time.Since(start) > patience/2 {
			return errors.New("the answer took too long")
		}
		return nil
	})
}

func noEcho(s *Server) error {
	return withClient(s, func(other *nats.Conn) error {
		return withClient(s, func(c *nats.Conn) error {
			own, err := c.SubscribeSync("echo")
			if err != nil {
				return err
			}
			theirs, err := other.SubscribeSync("echo")
			if err != nil {
				return err
			}
			if err := other.FlushTimeout(patience); err != nil {
				return err
			}
			if err := c.Publish("echo", nil); err != nil {
				return err
			}
			if err := c.FlushTimeout(patience); err != nil {
				return err
			}
			if _, err := theirs.NextMsg(patience); err != nil {
				return err
			}
			return equal(drainCount(own), 0)
		}, nats.NoEcho())
	})
}

func autoUnsubscribe(s *Server) error {
	return withClient(s, func(c *nats.Conn) error {
		sub, err := c.SubscribeSync("some")
		if err != nil {
			return err
		}
		if err := sub.AutoUnsubscribe(10); err != nil {
			return err
		}
		for range 25 {
			if err := c.Publish("some", nil); err != nil {
				return err
			}
		}
		if err := c.FlushTimeout(patience); err != nil {
			return err
		}
		if err := equal(drainCount(sub), 10); err != nil {
			return err
		}
		// The server has to have forgotten it too: only then nobody answers.
		_, err = c.Request("some", nil, patience)
		if !errors.Is(err, nats.ErrNoResponders) {
			return fmt.Errorf("after the limit: %v", err)
		}
		return nil
	})
}

func unsubscribe(s *Server) error {
	return withClient(s, func(c *nats.Conn) error {
		sub, err := c.SubscribeSync("gone")
		if err != nil {
			return err
		}
		if err := sub.Unsubscribe(); err != nil {
			return err
		}
		_, err = c.Request("gone", nil, patience)
		if !errors.Is(err, nats.ErrNoResponders) {
			return fmt.Errorf("after the end: %v", err)
		}
		return equal(c.Stats().InMsgs, 1)
	})
}

func order(s *Server) error {
	return withClient(s, func(c *nats.Conn) error {
		const messages = 50_000
		sub, err := c.SubscribeSync("n.*")
		if err != nil {
			return err
		}
		for i := range messages {
			if err := c.Publish("n.x", []byte(fmt.Sprint(i))); err != nil {
				return err
			}
		}
		for i := range messages {
			m, err := sub.NextMsg(patience)
			if err != nil {
				return fmt.Errorf("message %d: %w", i, err)
			}
			if string(m.Data) != fmt.Sprint(i) {
				return fmt.Errorf("%s came as number %d", m.Data, i)
			}
		}
		return nil
	})
}
