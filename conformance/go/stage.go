package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// withJetStream is the configuration of a server that keeps its streams in its own room.
const withJetStream = "jetstream { store_dir: ROOM }\n"

// stage is a server with JetStream and one client of it. What a check finds wrong is collected, so that
// one difference does not hide the next; what cannot go on panics, which perform turns into a failure.
type stage struct {
	server *Server
	conn   *nats.Conn
	js     jetstream.JetStream
	ctx    context.Context
	wrong  []error
}

// onStage makes a scene's play of what a client does with JetStream.
func onStage(play func(*stage), options ...nats.Option) func(*Server) error {
	return func(server *Server) error {
		return withClient(server, func(c *nats.Conn) error {
			ctx, cancel := context.WithTimeout(context.Background(), 12*patience)
			defer cancel()
			s := &stage{server: server, conn: c, js: need(jetstream.New(c)), ctx: ctx}
			play(s)
			return errors.Join(s.wrong...)
		}, options...)
	}
}

// need is a value without which the scene cannot go on.
func need[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// must is an act without which the scene cannot go on.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// same notes that what was seen is not what is expected.
func (s *stage) same(what string, got, want any) {
	if !reflect.DeepEqual(got, want) {
		s.wrong = append(s.wrong, fmt.Errorf("%s: got %+v, not %+v", what, got, want))
	}
}

// refused notes that an act did not fail with this error of the API; 0 is that it succeeds.
func (s *stage) refused(what string, err error, code jetstream.ErrorCode) {
	var refusal jetstream.JetStreamError
	var plain *jetstream.APIError
	got := jetstream.ErrorCode(0)
	switch {
	case err == nil:
	case errors.As(err, &plain):
		got = plain.ErrorCode
	case errors.As(err, &refusal) && refusal.APIError() != nil:
		got = refusal.APIError().ErrorCode
	default:
		s.wrong = append(s.wrong, fmt.Errorf("%s: %w, not %d", what, err, code))
		return
	}
	if got != code {
		s.wrong = append(s.wrong, fmt.Errorf("%s: error %d (%v), not %d", what, got, err, code))
	}
}

// stream creates one; its name is that of the scene's only stream where nothing else is said.
func (s *stage) stream(config jetstream.StreamConfig) jetstream.Stream {
	if config.Name == "" {
		config.Name = "S"
	}
	if config.Subjects == nil {
		config.Subjects = []string{"s.>"}
	}
	return need(s.js.CreateStream(s.ctx, config))
}

// fill publishes n messages, one after the other, to s.0, s.1 and so on around subjects.
func (s *stage) fill(n, subjects int) {
	for i := range n {
		need(s.js.Publish(s.ctx, fmt.Sprintf("s.%d", i%subjects), fmt.Appendf(nil, "m%d", i+1)))
	}
}

// state is what a stream's info says of its messages.
func (s *stage) state(stream jetstream.Stream, options ...jetstream.StreamInfoOpt) jetstream.StreamState {
	return need(stream.Info(s.ctx, options...)).State
}

// holds checks how many messages a stream has and which are first and last.
func (s *stage) holds(what string, stream jetstream.Stream, messages, first, last uint64) {
	state := s.state(stream)
	s.same(what, [3]uint64{state.Msgs, state.FirstSeq, state.LastSeq}, [3]uint64{messages, first, last})
}

// becomes waits until a stream has this many messages.
func (s *stage) becomes(what string, stream jetstream.Stream, messages uint64) {
	deadline := time.Now().Add(2 * patience)
	for s.state(stream).Msgs != messages && time.Now().Before(deadline) {
		time.Sleep(20 * time.Millisecond)
	}
	s.same(what, s.state(stream).Msgs, messages)
}

// ask sends a request of the API that no client would, and returns the code of the error, or 0.
func (s *stage) ask(subject, body string) jetstream.ErrorCode {
	answer := need(s.conn.Request("$JS.API."+subject, []byte(body), patience))
	return errorOf(answer.Data)
}

func errorOf(answer []byte) jetstream.ErrorCode {
	var said struct{ Error *jetstream.APIError }
	must(json.Unmarshal(answer, &said))
	if said.Error == nil {
		return 0
	}
	return said.Error.ErrorCode
}

// restart ends the server in good order, runs it again and waits until the client is back.
func (s *stage) restart() {
	must(s.server.Restart())
	s.comesBack()
}

// comesBack waits until the client has found the server again.
func (s *stage) comesBack() {
	deadline := time.Now().Add(2 * patience)
	for s.conn.FlushTimeout(time.Second) != nil {
		if time.Now().After(deadline) {
			panic("the client does not come back")
		}
		time.Sleep(10 * time.Millisecond)
	}
}
