package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"
)

// batches holds the scenes of atomic batches: all of their messages are stored, or none.
var batches = []scene{
	{"an atomic batch", withJetStream, onStage(atomicBatch)},
	{"an atomic batch of one and of a thousand", withJetStream, onStage(atomicSizes)},
	{"an atomic batch given up", withJetStream, onStage(atomicGivenUp)},
	{"atomic batches side by side", withJetStream, onStage(atomicSideBySide)},
	{"what an atomic batch expects", withJetStream, onStage(atomicExpectations)},
	{"ids and lives in an atomic batch", withJetStream, onStage(atomicHeaders)},
	{"atomic batches that are refused", withJetStream, onStage(atomicRefusals)},
	{"limits to atomic batches", `jetstream { store_dir: ROOM
  limits { batch { max_inflight_per_stream: 2, max_inflight_total: 3, max_msgs: 5, timeout: "300ms" } } }`, onStage(atomicLimits)},
	{"an atomic batch over a restart", withJetStream, onStage(atomicRestart, nats.ReconnectWait(20*time.Millisecond))},
}

// atomic is a stream that takes atomic batches.
func (s *stage) atomic(storage jetstream.StorageType) jetstream.Stream {
	return s.stream(jetstream.StreamConfig{Storage: storage, AllowAtomicPublish: true, AllowDirect: true, AllowMsgTTL: true})
}

// inBatch is a message with the headers of a batch; commit is left out where it is empty.
func inBatch(subject, id, sequence, commit string) *nats.Msg {
	header := nats.Header{jetstreamext.BatchIDHeader: {id}, jetstreamext.BatchSeqHeader: {sequence}}
	if commit != "" {
		header[jetstreamext.BatchCommitHeader] = []string{commit}
	}
	return &nats.Msg{Subject: subject, Header: header}
}

// sends publishes a message and returns the code of the error that it was answered with, or 0.
func (s *stage) sends(m *nats.Msg) jetstream.ErrorCode {
	answer := need(s.conn.RequestMsg(m, patience))
	if len(answer.Data) == 0 {
		return 0
	}
	return errorOf(answer.Data)
}

func atomicBatch(s *stage) {
	for _, storage := range []jetstream.StorageType{jetstream.FileStorage, jetstream.MemoryStorage} {
		stream := s.atomic(storage)
		batch := need(jetstreamext.NewBatchPublisher(s.js))
		must(batch.Add("s.a", []byte("1")))
		must(batch.AddMsg(&nats.Msg{Subject: "s.b", Header: nats.Header{"Who": {"me"}}, Data: []byte("2")}))
		s.same("size", batch.Size(), 2)
		s.holds("not yet", stream, 0, 0, 0)
		ack := need(batch.Commit(s.ctx, "s.c", []byte("3")))
		s.same("closed", batch.IsClosed(), true)
		s.same("acknowledgement", []any{ack.Stream, ack.Sequence, ack.BatchSize, ack.Domain}, []any{"S", uint64(3), 3, ""})
		s.holds("all", stream, 3, 1, 3)
		second := need(stream.GetMsg(s.ctx, 2))
		s.same("as sent", []string{second.Subject, string(second.Data), second.Header.Get("Who"),
			second.Header.Get(jetstreamext.BatchIDHeader), second.Header.Get(jetstreamext.BatchSeqHeader)},
			[]string{"s.b", "2", "me", ack.BatchID, "2"})
		last := need(stream.GetMsg(s.ctx, 3))
		s.same("its commit", last.Header.Get(jetstreamext.BatchCommitHeader), "1")
		must(s.js.DeleteStream(s.ctx, "S"))
	}
}

func atomicSizes(s *stage) {
	stream := s.atomic(jetstream.FileStorage)
	for _, size := range []int{1, 2, 999, 1000} {
		messages := make([]*nats.Msg, size)
		for i := range messages {
			messages[i] = &nats.Msg{Subject: "s.a", Data: fmt.Append(nil, i), Header: nats.Header{}}
		}
		ack := need(jetstreamext.PublishMsgBatch(s.ctx, s.js, messages, jetstreamext.BatchFlowControl{AckFirst: true, AckEvery: 100, AckTimeout: patience}))
		s.same("size", ack.BatchSize, size)
	}
	s.holds("all", stream, 2002, 1, 2002)
	s.same("in order", string(need(stream.GetMsg(s.ctx, 2002-400)).Data), "599")
	batch := need(jetstreamext.NewBatchPublisher(s.js))
	for range 1000 {
		must(batch.Add("s.a", nil))
	}
	_, err := batch.Commit(s.ctx, "s.a", nil)
	s.refused("one too many", err, 10199)
	s.holds("nothing of it", stream, 2002, 1, 2002)
}

func atomicGivenUp(s *stage) {
	stream := s.atomic(jetstream.FileStorage)
	advisories := need(s.conn.SubscribeSync("$JS.EVENT.ADVISORY.STREAM.BATCH_ABANDONED.S"))
	batch := need(jetstreamext.NewBatchPublisher(s.js))
	must(batch.Add("s.a", nil))
	must(batch.Discard())
	s.same("closed to the client", batch.Add("s.a", nil), error(jetstreamext.ErrBatchClosed))
	s.same("before a gap", s.sends(inBatch("s.a", "gap", "1", "")), jetstream.ErrorCode(0))
	s.same("after a gap", s.sends(inBatch("s.a", "gap", "3", "")), jetstream.ErrorCode(10176))
	s.same("commit after a gap", s.sends(inBatch("s.a", "gap", "4", "1")), jetstream.ErrorCode(10176))
	advisory := string(need(advisories.NextMsg(patience)).Data)
	s.same("advisory", strings.Contains(advisory, `"batch":"gap"`) && strings.Contains(advisory, `"reason":"incomplete"`), true)
	s.same("unknown", s.sends(inBatch("s.a", "unknown", "2", "1")), jetstream.ErrorCode(10176))
	s.same("eob of a batch", s.sends(inBatch("s.a", "eob", "1", "")), jetstream.ErrorCode(0))
	s.same("eob", s.sends(inBatch("s.a", "eob", "2", "eob")), jetstream.ErrorCode(0))
	s.holds("without the last", stream, 1, 1, 1)
	s.same("commit word", s.sends(inBatch("s.a", "word", "1", "yes")), jetstream.ErrorCode(10200))
}

func atomicSideBySide(s *stage) {
	stream := s.atomic(jetstream.FileStorage)
	open := make([]jetstreamext.BatchPublisher, 10)
	for i := range open {
		open[i] = need(jetstreamext.NewBatchPublisher(s.js))
	}
	for range 5 {
		for i, batch := range open {
			must(batch.Add(fmt.Sprintf("s.%d", i), nil))
		}
		need(s.js.Publish(s.ctx, "s.single", nil))
	}
	for i := len(open) - 1; i >= 0; i-- {
		ack := need(open[i].Commit(s.ctx, fmt.Sprintf("s.%d", i), nil))
		s.same("in order of commits", ack.Sequence, uint64(5+6*(len(open)-i)))
	}
	s.holds("all", stream, 65, 1, 65)
	s.same("together", need(stream.GetMsg(s.ctx, 6)).Subject, "s.9")
}

func atomicExpectations(s *stage) {
	stream := s.atomic(jetstream.FileStorage)
	s.fill(4, 2)
	try := func(what string, code jetstream.ErrorCode, first, last jetstreamext.BatchMsgOpt) {
		batch := need(jetstreamext.NewBatchPublisher(s.js))
		none := jetstreamext.WithBatchMsgTTL(0)
		if first == nil {
			first = none
		}
		if last == nil {
			last = none
		}
		must(batch.Add("s.0", nil, first))
		_, err := batch.Commit(s.ctx, "s.1", nil, last)
		s.refused(what, err, code)
	}
	try("last sequence", 0, jetstreamext.WithBatchExpectLastSequence(4), nil)
	try("last sequence, wrong", 10071, jetstreamext.WithBatchExpectLastSequence(4), nil)
	try("last sequence in the second", 10071, nil, jetstreamext.WithBatchExpectLastSequence(6))
	try("stream", 0, jetstreamext.WithBatchExpectStream("S"), jetstreamext.WithBatchExpectStream("S"))
	try("stream, wrong", 10060, nil, jetstreamext.WithBatchExpectStream("T"))
	try("subject's last", 0, jetstreamext.WithBatchExpectLastSequencePerSubject(7), jetstreamext.WithBatchExpectLastSequencePerSubject(8))
	try("subject's last, wrong", 10071, nil, jetstreamext.WithBatchExpectLastSequencePerSubject(8))
	try("another's last", 0, jetstreamext.WithBatchExpectLastSequenceForSubject(0, "s.x"), nil)
	try("changed within the batch", 10164, nil, jetstreamext.WithBatchExpectLastSequenceForSubject(9, "s.0"))
	state := s.state(stream)
	s.same("only what was welcome", [2]uint64{state.Msgs, state.LastSeq}, [2]uint64{12, 12})
}

func atomicHeaders(s *stage) {
	stream := s.atomic(jetstream.FileStorage)
	batch := need(jetstreamext.NewBatchPublisher(s.js))
	must(batch.AddMsg(&nats.Msg{Subject: "s.a", Header: nats.Header{jetstream.MsgIDHeader: {"one"}}}))
	must(batch.Add("s.short", nil, jetstreamext.WithBatchMsgTTL(time.Second)))
	need(batch.Commit(s.ctx, "s.c", nil))
	s.same("known id", need(s.js.Publish(s.ctx, "s.a", nil, jetstream.WithMsgID("one"))).Duplicate, true)
	s.becomes("the short-lived one went", stream, 2)
	twice := need(jetstreamext.NewBatchPublisher(s.js))
	must(twice.AddMsg(&nats.Msg{Subject: "s.a", Header: nats.Header{jetstream.MsgIDHeader: {"two"}}}))
	_, err := twice.CommitMsg(s.ctx, &nats.Msg{Subject: "s.a", Header: nats.Header{jetstream.MsgIDHeader: {"two"}}})
	s.refused("an id twice", err, 10201)
	old := need(jetstreamext.NewBatchPublisher(s.js))
	must(old.Add("s.a", nil))
	_, err = old.CommitMsg(s.ctx, &nats.Msg{Subject: "s.a", Header: nats.Header{jetstream.MsgIDHeader: {"one"}}})
	s.refused("an id of before", err, 10201)
	last := need(jetstreamext.NewBatchPublisher(s.js))
	must(last.Add("s.a", nil))
	_, err = last.CommitMsg(s.ctx, &nats.Msg{Subject: "s.a", Header: nats.Header{jetstream.ExpectedLastMsgIDHeader: {"one"}}})
	s.refused("the last id", err, 10177)
}

func atomicRefusals(s *stage) {
	s.stream(jetstream.StreamConfig{Name: "T", Subjects: []string{"t"}})
	s.same("not enabled", s.sends(inBatch("t", "x", "1", "1")), jetstream.ErrorCode(10174))
	stream := s.atomic(jetstream.FileStorage)
	s.same("no sequence", s.sends(inBatch("s.a", "x", "", "1")), jetstream.ErrorCode(10175))
	s.same("no number", s.sends(inBatch("s.a", "x", "one", "1")), jetstream.ErrorCode(10175))
	s.same("a long id", s.sends(inBatch("s.a", strings.Repeat("x", 65), "1", "1")), jetstream.ErrorCode(10179))
	s.same("an id as long as may be", s.sends(inBatch("s.a", strings.Repeat("x", 64), "1", "1")), jetstream.ErrorCode(0))
	large := inBatch("s.a", "large", "1", "1")
	large.Header.Set(jetstream.MsgTTLHeader, "soon")
	s.same("a life of nothing", s.sends(large), jetstream.ErrorCode(10165))
	s.holds("one", stream, 1, 1, 1)
	config := stream.CachedInfo().Config
	config.AllowAtomicPublish = false
	must(need(jetstreamext.NewBatchPublisher(s.js)).Add("s.a", nil))
	need(s.js.UpdateStream(s.ctx, config))
	s.same("no more", s.sends(inBatch("s.a", "y", "1", "1")), jetstream.ErrorCode(10174))
}

func atomicLimits(s *stage) {
	stream := s.atomic(jetstream.FileStorage)
	s.stream(jetstream.StreamConfig{Name: "T", Subjects: []string{"t"}, AllowAtomicPublish: true})
	start := func(subject, id string) jetstream.ErrorCode { return s.sends(inBatch(subject, id, "1", "")) }
	s.same("first", start("s.a", "1"), jetstream.ErrorCode(0))
	s.same("second", start("s.a", "2"), jetstream.ErrorCode(0))
	s.same("one too many", start("s.a", "3"), jetstream.ErrorCode(10210))
	s.same("of another stream", start("t", "4"), jetstream.ErrorCode(0))
	s.same("one too many of all", start("t", "5"), jetstream.ErrorCode(10210))
	deadline := time.Now().Add(patience)
	for start("s.a", "6") != 0 {
		if time.Now().After(deadline) {
			panic("no batch runs out of time")
		}
		time.Sleep(20 * time.Millisecond)
	}
	batch := need(jetstreamext.NewBatchPublisher(s.js))
	for range 5 {
		must(batch.Add("s.a", nil))
	}
	_, err := batch.Commit(s.ctx, "s.a", nil)
	s.refused("too many messages", err, 10199)
	s.holds("nothing", stream, 0, 0, 0)
}

func atomicRestart(s *stage) {
	stream := s.atomic(jetstream.FileStorage)
	whole := need(jetstreamext.NewBatchPublisher(s.js))
	must(whole.Add("s.a", nil))
	need(whole.Commit(s.ctx, "s.a", nil))
	half := need(jetstreamext.NewBatchPublisher(s.js))
	must(half.Add("s.a", nil))
	s.restart()
	s.holds("the whole one", stream, 2, 1, 2)
	_, err := half.Commit(s.ctx, "s.a", nil)
	s.refused("the half one", err, 10176)
	s.holds("nothing of it", stream, 2, 1, 2)
}
