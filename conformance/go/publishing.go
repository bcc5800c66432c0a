package main

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// publishing holds the scenes in which single messages are published to streams.
var publishing = []scene{
	{"acknowledged one by one", withJetStream, onStage(publishOneByOne)},
	{"acknowledged in a window", withJetStream, onStage(publishInWindow)},
	{"many publishers", withJetStream, onStage(publishAtOnce)},
	{"message ids", withJetStream, onStage(messageIDs, nats.ReconnectWait(20*time.Millisecond))},
	{"what is expected of a stream", withJetStream, onStage(expectations)},
	{"rollups", withJetStream, onStage(rollups)},
	{"messages with a time to live", withJetStream, onStage(timeToLive)},
	{"no acknowledgements", withJetStream, onStage(noAck)},
	{"a stream for nobody", withJetStream, onStage(noStream)},
	{"subjects transformed and published again", withJetStream, onStage(transformed)},
	{"messages of all sizes, with headers", withJetStream, onStage(storedSizes)},
	{"publishing over a restart", withJetStream, onStage(overRestart, nats.ReconnectWait(20*time.Millisecond))},
	{"key-value without watching", withJetStream, onStage(keyValue, nats.ReconnectWait(20*time.Millisecond))},
	{"publish headers that are no headers", withJetStream, onStage(badHeaders)},
}

func publishOneByOne(s *stage) {
	for _, storage := range []jetstream.StorageType{jetstream.FileStorage, jetstream.MemoryStorage} {
		s.stream(jetstream.StreamConfig{Storage: storage})
		for i := range uint64(100) {
			ack := need(s.js.Publish(s.ctx, "s.a", fmt.Append(nil, i)))
			s.same("acknowledgement", *ack, jetstream.PubAck{Stream: "S", Sequence: i + 1})
		}
		raw := need(s.conn.Request("s.a", nil, patience))
		s.same("its bytes", string(raw.Data), `{"stream":"S","seq":101}`)
		must(s.js.DeleteStream(s.ctx, "S"))
	}
}

func publishInWindow(s *stage) {
	const count = 20_000
	js := need(jetstream.New(s.conn, jetstream.WithPublishAsyncMaxPending(1000)))
	stream := s.stream(jetstream.StreamConfig{})
	futures := make([]jetstream.PubAckFuture, count)
	for i := range futures {
		futures[i] = need(js.PublishAsync(fmt.Sprintf("s.%d", i%10), fmt.Append(nil, i), jetstream.WithStallWait(patience)))
	}
	need(await(js.PublishAsyncComplete(), "end of publishing"))
	for i, future := range futures {
		select {
		case ack := <-future.Ok():
			if ack.Sequence != uint64(i+1) {
				s.same("order", ack.Sequence, i+1)
				return
			}
		case err := <-future.Err():
			s.same("refused", err, nil)
			return
		}
	}
	s.holds("all there", stream, count, 1, count)
	s.same("the last", string(need(stream.GetMsg(s.ctx, count)).Data), fmt.Sprint(count-1))
}

func publishAtOnce(s *stage) {
	stream := s.stream(jetstream.StreamConfig{})
	const publishers, each = 8, 300
	sequences := make(chan uint64, publishers*each)
	var all sync.WaitGroup
	for range publishers {
		all.Go(func() {
			must(withClient(s.server, func(c *nats.Conn) error {
				js := need(jetstream.New(c))
				for range each {
					sequences <- need(js.Publish(s.ctx, "s.x", nil)).Sequence
				}
				return nil
			}))
		})
	}
	all.Wait()
	close(sequences)
	seen := map[uint64]bool{}
	for sequence := range sequences {
		seen[sequence] = true
	}
	s.same("each its own", len(seen), publishers*each)
	s.holds("all there", stream, publishers*each, 1, publishers*each)
}

func messageIDs(s *stage) {
	stream := s.stream(jetstream.StreamConfig{Duplicates: time.Minute})
	first := need(s.js.Publish(s.ctx, "s.a", nil, jetstream.WithMsgID("one")))
	s.same("first", *first, jetstream.PubAck{Stream: "S", Sequence: 1})
	again := need(s.js.Publish(s.ctx, "s.b", nil, jetstream.WithMsgID("one")))
	s.same("again", *again, jetstream.PubAck{Stream: "S", Sequence: 1, Duplicate: true})
	need(s.js.Publish(s.ctx, "s.a", nil, jetstream.WithMsgID("two")))
	s.restart()
	late := need(s.js.Publish(s.ctx, "s.a", nil, jetstream.WithMsgID("two")))
	s.same("after a restart", *late, jetstream.PubAck{Stream: "S", Sequence: 2, Duplicate: true})
	s.holds("stored once each", stream, 2, 1, 2)
	_, err := s.js.Publish(s.ctx, "s.a", nil, jetstream.WithExpectLastMsgID("one"))
	s.refused("last id", err, 10070)
	need(s.js.Publish(s.ctx, "s.a", nil, jetstream.WithExpectLastMsgID("two")))
	config := stream.CachedInfo().Config
	config.Duplicates = 200 * time.Millisecond
	need(s.js.UpdateStream(s.ctx, config))
	need(s.js.Publish(s.ctx, "s.a", nil, jetstream.WithMsgID("three")))
	deadline := time.Now().Add(patience)
	for need(s.js.Publish(s.ctx, "s.a", nil, jetstream.WithMsgID("three"))).Duplicate {
		if time.Now().After(deadline) {
			panic("an id is never forgotten")
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func expectations(s *stage) {
	stream := s.stream(jetstream.StreamConfig{})
	for _, subject := range []string{"s.a", "s.b", "s.a"} {
		need(s.js.Publish(s.ctx, subject, nil))
	}
	for _, c := range []struct {
		what string
		opt  jetstream.PublishOpt
		code jetstream.ErrorCode
	}{
		{"another stream", jetstream.WithExpectStream("T"), 10060},
		{"this stream", jetstream.WithExpectStream("S"), 0},
		{"a last sequence gone by", jetstream.WithExpectLastSequence(3), 10071},
		{"the last sequence", jetstream.WithExpectLastSequence(4), 0},
		{"a last sequence to come", jetstream.WithExpectLastSequence(50), 10071},
		{"a subject's last, wrong", jetstream.WithExpectLastSequencePerSubject(2), 10071},
		{"a subject's last", jetstream.WithExpectLastSequencePerSubject(5), 0},
		{"another subject's last, wrong", jetstream.WithExpectLastSequenceForSubject(3, "s.b"), 10071},
		{"another subject's last", jetstream.WithExpectLastSequenceForSubject(2, "s.b"), 0},
		{"last of a wildcard", jetstream.WithExpectLastSequenceForSubject(7, "s.*"), 0},
		{"last of none", jetstream.WithExpectLastSequenceForSubject(0, "s.none"), 0},
		{"last of one that is", jetstream.WithExpectLastSequencePerSubject(0), 10071},
		{"no last id yet", jetstream.WithExpectLastMsgID("x"), 10070},
	} {
		_, err := s.js.Publish(s.ctx, "s.a", nil, c.opt)
		s.refused(c.what, err, c.code)
	}
	need(s.js.Publish(s.ctx, "s.new", nil, jetstream.WithExpectLastSequencePerSubject(0)))
	s.holds("only what was welcome", stream, 10, 1, 10)
	_, err := s.js.Publish(s.ctx, "s.a", nil, jetstream.WithExpectLastSequence(1))
	s.same("in words", err.Error(), "nats: nats: API error: code=400 err_code=10071 description=wrong last sequence: 10")
}

func rollups(s *stage) {
	stream := s.stream(jetstream.StreamConfig{AllowRollup: true})
	s.stream(jetstream.StreamConfig{Name: "T", Subjects: []string{"t"}})
	s.fill(10, 5)
	one := &nats.Msg{Subject: "s.1", Header: nats.Header{jetstream.MsgRollup: {jetstream.MsgRollupSubject}}, Data: []byte("sum")}
	s.same("place", need(s.js.PublishMsg(s.ctx, one)).Sequence, uint64(11))
	s.holds("of a subject", stream, 9, 1, 11)
	all := &nats.Msg{Subject: "s.2", Header: nats.Header{jetstream.MsgRollup: {jetstream.MsgRollupAll}}}
	need(s.js.PublishMsg(s.ctx, all))
	s.holds("of all", stream, 1, 12, 12)
	bad := &nats.Msg{Subject: "s.2", Header: nats.Header{jetstream.MsgRollup: {"some"}}}
	_, err := s.js.PublishMsg(s.ctx, bad)
	s.refused("of some", err, 10111)
	off := &nats.Msg{Subject: "t", Header: nats.Header{jetstream.MsgRollup: {jetstream.MsgRollupAll}}}
	_, err = s.js.PublishMsg(s.ctx, off)
	s.refused("not allowed", err, 10111)
}

func timeToLive(s *stage) {
	stream := s.stream(jetstream.StreamConfig{AllowMsgTTL: true, AllowDirect: true})
	s.stream(jetstream.StreamConfig{Name: "T", Subjects: []string{"t"}})
	need(s.js.Publish(s.ctx, "s.kept", nil))
	need(s.js.Publish(s.ctx, "s.short", nil, jetstream.WithMsgTTL(time.Second)))
	need(s.js.Publish(s.ctx, "s.long", nil, jetstream.WithMsgTTL(time.Hour)))
	s.same("all there", s.state(stream).Msgs, uint64(3))
	s.same("its header", need(stream.GetMsg(s.ctx, 2)).Header.Get(jetstream.MsgTTLHeader), "1s")
	s.becomes("one gone", stream, 2)
	_, err := stream.GetMsg(s.ctx, 2)
	s.same("which", errors.Is(err, jetstream.ErrMsgNotFound), true)
	for value, code := range map[string]jetstream.ErrorCode{"never": 0, "5": 0, "0": 10165, "10ms": 10165, "-1s": 10165, "soon": 10165, "500ms": 10165} {
		m := &nats.Msg{Subject: "s.b", Header: nats.Header{jetstream.MsgTTLHeader: {value}}}
		_, err = s.js.PublishMsg(s.ctx, m)
		s.refused("a life of "+value, err, code)
	}
	_, err = s.js.Publish(s.ctx, "t", nil, jetstream.WithMsgTTL(time.Second))
	s.refused("not allowed", err, 10166)
	marked := s.stream(jetstream.StreamConfig{Name: "U", Subjects: []string{"u.*"}, AllowMsgTTL: true, SubjectDeleteMarkerTTL: time.Hour, MaxAge: time.Second})
	need(s.js.Publish(s.ctx, "u.a", []byte("body")))
	deadline := time.Now().Add(2 * patience)
	for s.state(marked).LastSeq != 2 && time.Now().Before(deadline) {
		time.Sleep(20 * time.Millisecond)
	}
	marker := need(marked.GetLastMsgForSubject(s.ctx, "u.a"))
	s.same("marker", []any{marker.Sequence, len(marker.Data), marker.Header.Get(jetstream.MarkerReasonHeader),
		marker.Header.Get(jetstream.MsgTTLHeader)}, []any{uint64(2), 0, "MaxAge", "1h0m0s"})
}

func noAck(s *stage) {
	stream := s.stream(jetstream.StreamConfig{NoAck: true})
	_, err := s.conn.Request("s.a", []byte("x"), 300*time.Millisecond)
	s.same("silence", errors.Is(err, nats.ErrTimeout), true)
	s.becomes("stored all the same", stream, 1)
}

func noStream(s *stage) {
	_, err := s.js.Publish(s.ctx, "nobody", nil, jetstream.WithRetryAttempts(0))
	s.same("nobody", errors.Is(err, jetstream.ErrNoStreamResponse), true)
	future := need(s.js.PublishAsync("nobody", nil, jetstream.WithRetryAttempts(0)))
	s.same("nobody, later", errors.Is(need(await(future.Err(), "error")), jetstream.ErrNoStreamResponse), true)
}

func transformed(s *stage) {
	stream := s.stream(jetstream.StreamConfig{
		Subjects:         []string{"in.*.*"},
		SubjectTransform: &jetstream.SubjectTransformConfig{Source: "in.*.*", Destination: "kept.{{wildcard(2)}}.{{wildcard(1)}}"},
		RePublish:        &jetstream.RePublish{Source: "kept.*.>", Destination: "again.{{wildcard(1)}}.>"},
	})
	sub := need(s.conn.SubscribeSync("again.>"))
	need(s.js.PublishMsg(s.ctx, &nats.Msg{Subject: "in.a.b", Data: []byte("body"), Header: nats.Header{"Who": {"me"}}}))
	stored := need(stream.GetMsg(s.ctx, 1))
	s.same("stored", []string{stored.Subject, string(stored.Data), stored.Header.Get("Who")}, []string{"kept.b.a", "body", "me"})
	heard := need(sub.NextMsg(patience))
	s.same("heard", []string{heard.Subject, string(heard.Data), heard.Header.Get("Who"), heard.Header.Get(jetstream.StreamHeader),
		heard.Header.Get(jetstream.SubjectHeader), heard.Header.Get(jetstream.SequenceHeader), heard.Header.Get(jetstream.LastSequenceHeader)},
		[]string{"again.b.a", "body", "me", "S", "kept.b.a", "1", "0"})
	need(s.js.Publish(s.ctx, "in.a.b", nil))
	s.same("the one before", need(sub.NextMsg(patience)).Header.Get(jetstream.LastSequenceHeader), "1")
	config := stream.CachedInfo().Config
	config.RePublish.HeadersOnly = true
	need(s.js.UpdateStream(s.ctx, config))
	need(s.js.Publish(s.ctx, "in.a.b", []byte("12345")))
	bare := need(sub.NextMsg(patience))
	s.same("headers only", []any{len(bare.Data), bare.Header.Get("Nats-Msg-Size")}, []any{0, "5"})
}

func storedSizes(s *stage) {
	for _, storage := range []jetstream.StorageType{jetstream.FileStorage, jetstream.MemoryStorage} {
		stream := s.stream(jetstream.StreamConfig{Storage: storage})
		for _, size := range []int{0, 1, 255, 4095, 4096, 4097, 65535, 65536, 1 << 20} {
			header := nats.Header{"Size": {fmt.Sprint(size)}, "Twice": {"a", "b"}}
			body := []byte(strings.Repeat("\r\n\x00z", size/4+1)[:size])
			if size == 1<<20 {
				header = nil
			}
			ack := need(s.js.PublishMsg(s.ctx, &nats.Msg{Subject: "s.a", Data: body, Header: header}))
			stored := need(stream.GetMsg(s.ctx, ack.Sequence))
			s.same(fmt.Sprint(size, " bytes"), string(stored.Data) == string(body), true)
			s.same("headers", stored.Header, header)
		}
		must(s.js.DeleteStream(s.ctx, "S"))
	}
}

func overRestart(s *stage) {
	stream := s.stream(jetstream.StreamConfig{})
	acked := []uint64{}
	for round := range 5 {
		for range 20 {
			acked = append(acked, need(s.js.Publish(s.ctx, "s.a", fmt.Append(nil, round))).Sequence)
		}
		s.server.Stop()
		must(s.server.Start())
		s.comesBack()
		for _, sequence := range acked {
			need(stream.GetMsg(s.ctx, sequence))
		}
	}
	s.holds("all there", stream, 100, 1, 100)
}

func keyValue(s *stage) {
	kv := need(s.js.CreateKeyValue(s.ctx, jetstream.KeyValueConfig{Bucket: "B", History: 5, LimitMarkerTTL: time.Second}))
	s.same("first", need(kv.Put(s.ctx, "a.b", []byte("1"))), uint64(1))
	s.same("second", need(kv.PutString(s.ctx, "a.b", "2")), uint64(2))
	entry := need(kv.Get(s.ctx, "a.b"))
	s.same("got", []any{string(entry.Value()), entry.Revision(), entry.Key(), entry.Operation()}, []any{"2", uint64(2), "a.b", jetstream.KeyValuePut})
	s.same("as it was", string(need(kv.GetRevision(s.ctx, "a.b", 1)).Value()), "1")
	_, err := kv.Create(s.ctx, "a.b", nil)
	s.same("made twice", errors.Is(err, jetstream.ErrKeyExists), true)
	s.same("made", need(kv.Create(s.ctx, "c", []byte("x"))), uint64(3))
	_, err = kv.Update(s.ctx, "a.b", nil, 1)
	s.refused("changed by another", err, 10071)
	s.same("changed", need(kv.Update(s.ctx, "a.b", []byte("3"), 2)), uint64(4))
	must(kv.Delete(s.ctx, "a.b"))
	_, err = kv.Get(s.ctx, "a.b")
	s.same("deleted", errors.Is(err, jetstream.ErrKeyNotFound), true)
	s.same("made again", need(kv.Create(s.ctx, "a.b", []byte("4"))), uint64(6))
	must(kv.Purge(s.ctx, "a.b", jetstream.PurgeTTL(time.Hour)))
	status := need(kv.Status(s.ctx))
	s.same("status", []any{status.Bucket(), status.Values(), status.History(), status.BackingStore(), status.LimitMarkerTTL()},
		[]any{"B", uint64(2), int64(5), "JetStream", time.Second})
	need(kv.Create(s.ctx, "short", nil, jetstream.KeyTTL(time.Second)))
	deadline := time.Now().Add(2 * patience)
	for _, err = kv.Get(s.ctx, "short"); err == nil && time.Now().Before(deadline); _, err = kv.Get(s.ctx, "short") {
		time.Sleep(20 * time.Millisecond)
	}
	s.same("short-lived", errors.Is(err, jetstream.ErrKeyNotFound), true)
	s.restart()
	s.same("after a restart", string(need(kv.Get(s.ctx, "c")).Value()), "x")
	names := []string{}
	for name := range s.js.KeyValueStoreNames(s.ctx).Name() {
		names = append(names, name)
	}
	s.same("buckets", names, []string{"B"})
	must(s.js.DeleteKeyValue(s.ctx, "B"))
	_, err = s.js.KeyValue(s.ctx, "B")
	s.same("gone", errors.Is(err, jetstream.ErrBucketNotFound), true)
}

func badHeaders(s *stage) {
	s.stream(jetstream.StreamConfig{})
	for _, c := range []struct {
		key, value string
		code       jetstream.ErrorCode
	}{
		{"Nats-Expected-Last-Sequence", "x", 10071}, {"Nats-Expected-Last-Sequence", "-1", 10071},
		{"Nats-Expected-Last-Subject-Sequence", "x", 10071}, {"Nats-Rollup", "", 0}, {"Nats-TTL", "", 0},
		{"Nats-Msg-Id", "", 0}, {"Nats-Required-Api-Level", "99", 0}, {"Nats-Required-Api-Level", "x", 0},
		{"Nats-Required-Api-Level", "1", 0}, {"Nats-Incr", "1", 10168}, {"Nats-Batch-Id", "x", 10174},
		{"Nats-Schedule", "@at 2030-01-01T00:00:00Z", 10188},
	} {
		m := &nats.Msg{Subject: "s.a", Header: nats.Header{c.key: {c.value}}}
		_, err := s.js.PublishMsg(s.ctx, m)
		s.refused(c.key+": "+c.value, err, c.code)
	}
	large := &nats.Msg{Subject: "s.a", Header: nats.Header{"Large": {strings.Repeat("x", 66000)}}}
	_, err := s.js.PublishMsg(s.ctx, large)
	s.refused("a large header", err, 10097)
}
