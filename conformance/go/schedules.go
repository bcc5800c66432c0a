package main

import (
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// schedules holds the scenes of messages that do something: schedules and counters.
var schedules = []scene{
	{"schedules over kills", withJetStream, onStage(overKills, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))},
	{"a counter for many", withJetStream, onStage(countAtOnce, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))},
}

// overKills plans many messages and kills the server while they are due: each comes once, and its schedule goes.
func overKills(s *stage) {
	const count = 1000
	s.accepts(`{"name":"S","subjects":["s.>","t.>"],"allow_msg_schedules":true}`)
	first := time.Now().Add(4 * time.Second)
	for i := range count {
		due := first.Add(time.Duration(i) * 4 * time.Millisecond)
		message := nats.NewMsg(fmt.Sprintf("s.%d", i))
		message.Header.Set("Nats-Schedule", "@at "+due.UTC().Format(time.RFC3339Nano))
		message.Header.Set("Nats-Schedule-Target", fmt.Sprintf("t.%d", i))
		need(s.js.PublishMsgAsync(message))
	}
	need(await(s.js.PublishAsyncComplete(), "end of publishing"))
	repeated := nats.NewMsg("s.each")
	repeated.Header.Set("Nats-Schedule", "* * * * * *")
	repeated.Header.Set("Nats-Schedule-Target", "t.each")
	need(s.js.PublishMsg(s.ctx, repeated))
	time.Sleep(time.Until(first))
	kills := 0
	for ; time.Since(first) < 5*time.Second; kills++ {
		time.Sleep(time.Duration(250+37*kills) * time.Millisecond)
		s.server.Stop()
		must(s.server.Start())
	}
	s.comesBack()
	stream := need(s.js.Stream(s.ctx, "S"))
	fired := func() (subjects map[string]uint64, done bool) {
		subjects = s.state(stream, jetstream.WithSubjectFilter(">")).Subjects
		delete(subjects, "t.each")
		return subjects, len(subjects) == count+1
	}
	subjects, done := fired()
	for deadline := time.Now().Add(2 * patience); !done && time.Now().Before(deadline); subjects, done = fired() {
		time.Sleep(20 * time.Millisecond)
	}
	for i := range count {
		once := subjects[fmt.Sprintf("t.%d", i)] == 1 && subjects[fmt.Sprintf("s.%d", i)] == 0
		s.same(fmt.Sprintf("message %d came once after %d kills", i, kills), once, true)
	}
	s.same("the schedule that repeats", subjects["s.each"], uint64(1))
	each := need(s.js.OrderedConsumer(s.ctx, "S", jetstream.OrderedConsumerConfig{FilterSubjects: []string{"t.each"}}))
	seen := map[string]bool{}
	for {
		message, err := each.Next(jetstream.FetchMaxWait(100 * time.Millisecond))
		if err != nil {
			break
		}
		next := message.Headers().Get("Nats-Schedule-Next")
		s.same("twice before "+next, seen[next], false)
		seen[next] = true
		if metadata := need(message.Metadata()); metadata.NumPending == 0 {
			break
		}
	}
}

// countAtOnce has many publishers add to one counter, over a kill: what was acknowledged was counted.
func countAtOnce(s *stage) {
	const publishers, each = 8, 250
	s.accepts(`{"name":"C","subjects":["c.>"],"allow_msg_counter":true,"allow_direct":true}`)
	publish := func() {
		var all sync.WaitGroup
		failed := make(chan error, publishers)
		for range publishers {
			all.Go(func() {
				for range each {
					message := nats.NewMsg("c.a")
					message.Header.Set("Nats-Incr", "100000000000000000000")
					if _, err := s.conn.RequestMsg(message, patience); err != nil {
						failed <- err
						return
					}
				}
			})
		}
		all.Wait()
		close(failed)
		for err := range failed {
			must(err)
		}
	}
	publish()
	s.server.Stop()
	must(s.server.Start())
	s.comesBack()
	publish()
	last := need(s.conn.Request("$JS.API.DIRECT.GET.C.c.a", nil, patience))
	s.same("the total", string(last.Data), `{"val":"400000000000000000000000"}`)
}

// accepts makes a stream with a setting that the client does not know.
func (s *stage) accepts(config string) {
	answer := need(s.conn.Request("$JS.API.STREAM.CREATE."+config[9:10], []byte(config), patience))
	s.same(config, errorOf(answer.Data), jetstream.ErrorCode(0))
}
