package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

const (
	onePassword = "authorization { user: derek, password: s3cret }"
	oneToken    = "authorization { token: t0ken }"
	manyUsers   = `authorization { users: [
		{user: all, password: a}
		{user: few, password: b, permissions: {
			publish: {allow: ["ok.>", "_INBOX.>"], deny: "ok.not"}, subscribe: {allow: ["ok.>", "_INBOX.>", "work q"]}}}
		{user: answers, password: c, permissions: {subscribe: "questions", publish: {deny: ">"}, allow_responses: true}}
	] }`
	apart  = "accounts { ONE { users: [{user: one, password: a}] }, THREE { users: [{user: three, password: c}] } }"
	shared = `accounts {
		ONE { users: [{user: one, password: a}], exports: [{stream: "news.>"}, {service: "time"}] }
		TWO { users: [{user: two, password: b}],
			imports: [{stream: {account: ONE, subject: "news.>"}, prefix: "one"}, {service: {account: ONE, subject: "time"}, to: "clock"}] }
	}`
)

// security holds the scenes about who may come in and who may do what.
var security = []scene{
	{"user and password", onePassword, userAndPassword},
	{"token", oneToken, token},
	{"authorization timeout", "authorization { user: a, password: b, timeout: 0.3 }", authorizationTimeout},
	{"permission to publish", manyUsers, permissionToPublish},
	{"permission to subscribe", manyUsers, permissionToSubscribe},
	{"permission for a queue", manyUsers, permissionForQueue},
	{"allowed responses", manyUsers, allowedResponses},
	{"no_auth_user", "no_auth_user: all\n" + manyUsers, noAuthUser},
	{"accounts keep apart", apart, accountsApart},
}

// later holds the scenes for what Myelin does not offer yet: they run on request, with -later.
var later = []scene{
	{"nkey", "", nkey},
	{"imports and exports", shared, importsAndExports},
}

func admits(s *Server, want error, options ...nats.Option) error {
	c, err := nats.Connect(s.URL(), append(options, nats.NoReconnect())...)
	if err == nil {
		c.Close()
	}
	if !errors.Is(err, want) {
		return fmt.Errorf("connecting gave %v, not %v", err, want)
	}
	return nil
}

func userAndPassword(s *Server) error {
	return errors.Join(
		admits(s, nil, nats.UserInfo("derek", "s3cret")),
		admits(s, nats.ErrAuthorization, nats.UserInfo("derek", "guess")),
		admits(s, nats.ErrAuthorization, nats.UserInfo("other", "s3cret")),
		admits(s, nats.ErrAuthorization, nats.Token("s3cret")),
		admits(s, nats.ErrAuthorization))
}

func token(s *Server) error {
	return errors.Join(
		admits(s, nil, nats.Token("t0ken")),
		admits(s, nats.ErrAuthorization, nats.Token("other")),
		admits(s, nats.ErrAuthorization))
}

func nkey(s *Server) error {
	known, err := nkeys.CreateUser()
	if err != nil {
		return err
	}
	stranger, err := nkeys.CreateUser()
	if err != nil {
		return err
	}
	public, err := known.PublicKey()
	if err != nil {
		return err
	}
	locked, err := StartServer(s.binary, "authorization { users: [{nkey: "+public+"}] }")
	if err != nil {
		return err
	}
	defer locked.Close()
	return errors.Join(
		admits(locked, nil, nats.Nkey(public, known.Sign)),
		admits(locked, nats.ErrAuthorization, nats.Nkey(public, stranger.Sign)),
		admits(locked, nats.ErrAuthorization))
}

func authorizationTimeout(s *Server) error {
	silent, err := dialSilent(s)
	if err != nil {
		return err
	}
	defer silent.Close()
	return silent.told("-ERR 'Authentication Timeout'")
}

func permissionToPublish(s *Server) error {
	told := make(chan error, 10)
	return withClient(s, func(witness *nats.Conn) error {
		sub, err := witness.SubscribeSync(">")
		if err != nil {
			return err
		}
		if err := witness.FlushTimeout(patience); err != nil {
			return err
		}
		return withClient(s, func(c *nats.Conn) error {
			for _, subject := range []string{"ok.yes", "ok.not", "other"} {
				if err := c.Publish(subject, nil); err != nil {
					return err
				}
			}
			if err := c.FlushTimeout(patience); err != nil {
				return err
			}
			for _, subject := range []string{"ok.not", "other"} {
				if err := violation(told, fmt.Sprintf("Permissions Violation for Publish to \"%s\"", subject)); err != nil {
					return err
				}
			}
			return equal(drainCount(sub), 1)
		}, nats.UserInfo("few", "b"), telling(told))
	}, nats.UserInfo("all", "a"))
}

func telling(told chan<- error) nats.Option {
	return nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { told <- err })
}

// violation expects the next asynchronous error to be about a permission, with this text.
func violation(told <-chan error, text string) error {
	err, late := await(told, "violation")
	if late != nil {
		return late
	}
	if !errors.Is(err, nats.ErrPermissionViolation) || !strings.Contains(err.Error(), text) {
		return fmt.Errorf("the error is %v, not %s", err, text)
	}
	return nil
}

func permissionToSubscribe(s *Server) error {
	told := make(chan error, 10)
	return withClient(s, func(c *nats.Conn) error {
		sub, err := c.SubscribeSync("secret")
		if err != nil {
			return err
		}
		if err := violation(told, "Permissions Violation for Subscription to \"secret\""); err != nil {
			return err
		}
		if _, err := sub.NextMsg(patience); !errors.Is(err, nats.ErrPermissionViolation) {
			return fmt.Errorf("the subscription says %v", err)
		}
		allowed, err := c.SubscribeSync("ok.*")
		if err != nil {
			return err
		}
		if err := c.Publish("ok.yes", nil); err != nil {
			return err
		}
		_, err = allowed.NextMsg(patience)
		return err
	}, nats.UserInfo("few", "b"), nats.PermissionErrOnSubscribe(true), telling(told))
}

func permissionForQueue(s *Server) error {
	told := make(chan error, 10)
	return withClient(s, func(c *nats.Conn) error {
		if _, err := c.QueueSubscribeSync("work", "q"); err != nil {
			return err
		}
		if err := c.FlushTimeout(patience); err != nil {
			return err
		}
		if err := equal(len(told), 0); err != nil {
			return err
		}
		if _, err := c.QueueSubscribeSync("work", "other"); err != nil {
			return err
		}
		return violation(told, "Permissions Violation for Subscription to \"work\" using queue \"other\"")
	}, nats.UserInfo("few", "b"), telling(told))
}

func allowedResponses(s *Server) error {
	told := make(chan error, 10)
	return withClient(s, func(asks *nats.Conn) error {
		return withClient(s, func(c *nats.Conn) error {
			_, err := c.Subscribe("questions", func(m *nats.Msg) {
				_ = m.Respond([]byte("once"))
				_ = m.Respond([]byte("twice"))
			})
			if err != nil {
				return err
			}
			if err := c.FlushTimeout(patience); err != nil {
				return err
			}
			answer, err := asks.Request("questions", nil, patience)
			if err != nil {
				return err
			}
			if err := equal(string(answer.Data), "once"); err != nil {
				return err
			}
			return violation(told, "Permissions Violation for Publish to \"_INBOX.")
		}, nats.UserInfo("answers", "c"), telling(told))
	}, nats.UserInfo("all", "a"))
}

func noAuthUser(s *Server) error {
	return errors.Join(
		admits(s, nil),
		admits(s, nil, nats.UserInfo("few", "b")),
		admits(s, nats.ErrAuthorization, nats.UserInfo("few", "wrong")))
}

func accountsApart(s *Server) error {
	return withClient(s, func(one *nats.Conn) error {
		return withClient(s, func(three *nats.Conn) error {
			sub, err := three.SubscribeSync(">")
			if err != nil {
				return err
			}
			if err := three.FlushTimeout(patience); err != nil {
				return err
			}
			if err := one.Publish("news.today", nil); err != nil {
				return err
			}
			if err := one.FlushTimeout(patience); err != nil {
				return err
			}
			return equal(drainCount(sub), 0)
		}, nats.UserInfo("three", "c"))
	}, nats.UserInfo("one", "a"))
}

func importsAndExports(s *Server) error {
	return withClient(s, func(one *nats.Conn) error {
		return withClient(s, func(two *nats.Conn) error {
			_, err := one.Subscribe("time", func(m *nats.Msg) { _ = m.Respond([]byte("noon")) })
			if err != nil {
				return err
			}
			if err := one.FlushTimeout(patience); err != nil {
				return err
			}
			answer, err := two.Request("clock", nil, patience)
			if err != nil {
				return err
			}
			if err := equal(string(answer.Data), "noon"); err != nil {
				return err
			}
			sub, err := two.SubscribeSync("one.news.*")
			if err != nil {
				return err
			}
			if err := two.FlushTimeout(patience); err != nil {
				return err
			}
			if err := one.Publish("news.today", nil); err != nil {
				return err
			}
			m, err := sub.NextMsg(patience)
			if err != nil {
				return err
			}
			return equal(m.Subject, "one.news.today")
		}, nats.UserInfo("two", "b"))
	}, nats.UserInfo("one", "a"))
}
