package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"
)

// fastIngest holds the scenes of fast batches: one flow of messages that the server paces.
var fastIngest = []scene{
	{"a fast batch", withJetStream, onStage(fastBatch)},
	{"fast batches of many sizes and flows", withJetStream, onStage(fastSizes)},
	{"a fast batch of one", withJetStream, onStage(fastOne)},
	{"fast batches at once", withJetStream, onStage(fastAtOnce)},
	{"a fast batch in the server's words", withJetStream, onStage(fastWords)},
	{"a gap ends a fast batch", withJetStream, onStage(fastGapFails)},
	{"a gap is passed over", withJetStream, onStage(fastGapPasses)},
	{"what a fast batch expects", withJetStream, onStage(fastExpectations)},
	{"errors amid a fast batch", withJetStream, onStage(fastErrors)},
	{"fast batches that are refused", withJetStream, onStage(fastRefusals)},
	{"limits to fast batches", `jetstream { store_dir: ROOM
  limits { batch { max_inflight_per_stream: 2, max_inflight_total: 3, timeout: "300ms" } } }`, onStage(fastLimits)},
	{"fast batches with asynchronous persistence", withJetStream, onStage(fastAsync, nats.ReconnectWait(20*time.Millisecond))},
	{"a fast batch over a restart", withJetStream, onStage(fastRestart, nats.ReconnectWait(20*time.Millisecond))},
}

// fast is a stream that takes fast batches.
func (s *stage) fast(storage jetstream.StorageType) jetstream.Stream {
	return s.stream(jetstream.StreamConfig{Storage: storage, AllowBatchPublish: true, AllowDirect: true, AllowMsgTTL: true})
}

func fastBatch(s *stage) {
	for _, storage := range []jetstream.StorageType{jetstream.FileStorage, jetstream.MemoryStorage} {
		stream := s.fast(storage)
		batch := need(jetstreamext.NewFastPublisher(s.js))
		for i := range 5000 {
			ack := need(batch.Add(fmt.Sprintf("s.%d", i%7), fmt.Append(nil, i)))
			if ack.BatchSequence != uint64(i+1) || ack.AckSequence > ack.BatchSequence {
				s.same("acknowledgement", *ack, i+1)
			}
		}
		ack := need(batch.Commit(s.ctx, "s.last", []byte("last")))
		s.same("commit", []any{ack.Stream, ack.Sequence, ack.BatchSize}, []any{"S", uint64(5001), 5001})
		s.same("closed", batch.IsClosed(), true)
		s.holds("all", stream, 5001, 1, 5001)
		for _, i := range []uint64{1, 100, 2500, 5000} {
			m := need(stream.GetMsg(s.ctx, i))
			s.same("in order", []string{m.Subject, string(m.Data)}, []string{fmt.Sprintf("s.%d", (i-1)%7), fmt.Sprint(i - 1)})
		}
		must(s.js.DeleteStream(s.ctx, "S"))
	}
}

func fastSizes(s *stage) {
	stream := s.fast(jetstream.MemoryStorage)
	total := uint64(0)
	for _, flow := range []jetstreamext.FastPublishFlowControl{{Flow: 1, MaxOutstandingAcks: 1}, {Flow: 10, MaxOutstandingAcks: 3},
		{Flow: 1000}, {Flow: 65535, MaxOutstandingAcks: 4}} {
		for _, size := range []int{2, 99, 100, 101, 1500} {
			batch := need(jetstreamext.NewFastPublisher(s.js, flow))
			for range size {
				need(batch.Add("s.a", nil))
			}
			ack := need(batch.Close(s.ctx))
			total += uint64(size)
			s.same("closed without another", []any{ack.BatchSize, ack.Sequence}, []any{size, total})
		}
	}
	s.holds("all", stream, total, 1, total)
}

func fastOne(s *stage) {
	stream := s.fast(jetstream.FileStorage)
	only := need(jetstreamext.NewFastPublisher(s.js))
	ack := need(only.Commit(s.ctx, "s.a", nil))
	s.same("commit at once", []any{ack.BatchSize, ack.Sequence}, []any{1, uint64(1)})
	one := need(jetstreamext.NewFastPublisher(s.js))
	need(one.Add("s.a", nil))
	ack = need(one.Close(s.ctx))
	s.same("closed after one", []any{ack.BatchSize, ack.Sequence}, []any{1, uint64(2)})
	_, err := one.Close(s.ctx)
	s.same("closed twice", err, error(jetstreamext.ErrBatchClosed))
	s.holds("both", stream, 2, 1, 2)
}

func fastAtOnce(s *stage) {
	const publishers, each = 6, 2000
	stream := s.fast(jetstream.FileStorage)
	var all sync.WaitGroup
	for p := range publishers {
		all.Go(func() {
			must(withClient(s.server, func(c *nats.Conn) error {
				batch := need(jetstreamext.NewFastPublisher(need(jetstream.New(c)), jetstreamext.FastPublishFlowControl{AckTimeout: 4 * patience}))
				for i := range each - 1 {
					need(batch.Add(fmt.Sprintf("s.%d", p), fmt.Append(nil, i)))
				}
				ack := need(batch.Commit(s.ctx, fmt.Sprintf("s.%d", p), nil))
				return equal(ack.BatchSize, each)
			}))
		})
	}
	for range 200 {
		need(s.js.Publish(s.ctx, "s.single", nil))
	}
	all.Wait()
	s.holds("all", stream, publishers*each+200, 1, publishers*each+200)
	subjects := s.state(stream, jetstream.WithSubjectFilter("s.*")).Subjects
	s.same("each", subjects["s.0"], uint64(each))
}

// pump is a fast batch by hand: what the server says in answer is there to be read word by word.
type pump struct {
	s     *stage
	inbox string
	flow  int
	gap   string
	sub   *nats.Subscription
}

func (s *stage) pump(flow int, gap string) pump {
	inbox := s.conn.NewInbox()
	return pump{s, inbox, flow, gap, need(s.conn.SubscribeSync(inbox + ".>"))}
}

// unknownBatch is what the server says to who goes on with a batch that it does not have.
const unknownBatch = `{"error":{"code":400,"err_code":10208,"description":"batch publish ID unknown"},"stream":"S","seq":0}`

// The operations of a fast batch.
const (
	opStart = iota
	opAdd
	opCommit
	opCommitEnd
	opPing
)

// send publishes without looking for an answer.
func (p pump) send(subject string, sequence, operation int) {
	reply := fmt.Sprintf("%s.%d.%s.%d.%d.$FI", p.inbox, p.flow, p.gap, sequence, operation)
	must(p.s.conn.PublishRequest(subject, reply, nil))
}

// hears waits for the server's next words.
func (p pump) hears() string {
	m, err := p.sub.NextMsg(patience)
	if err != nil {
		return err.Error()
	}
	return string(m.Data)
}

// says checks the words that follow.
func (p pump) says(what string, want ...string) {
	for _, words := range want {
		got := p.hears()
		got = strings.ReplaceAll(got, p.inbox[strings.LastIndexByte(p.inbox, '.')+1:], "ID")
		p.s.same(what, got, words)
	}
}

// silent checks that nothing more was said.
func (p pump) silent(what string) {
	must(p.s.conn.FlushTimeout(patience))
	p.s.same(what, drainCount(p.sub), 0)
}

func fastWords(s *stage) {
	s.fast(jetstream.FileStorage)
	p := s.pump(3, "fail")
	p.send("s.a", 1, opStart)
	p.says("start", `{"type":"ack","seq":0,"msgs":3}`)
	for i := 2; i <= 6; i++ {
		p.send("s.a", i, opAdd)
	}
	p.says("flow", `{"type":"ack","seq":3,"msgs":3}`, `{"type":"ack","seq":6,"msgs":3}`)
	p.send("s.a", 6, opPing)
	p.says("ping", `{"type":"ack","seq":6,"msgs":3}`)
	p.send("s.a", 7, opAdd)
	p.send("s.a", 8, opCommit)
	p.says("commit", `{"stream":"S","seq":8,"batch":"ID","count":8}`)
	p.send("s.a", 8, opPing)
	p.says("ping after the end", unknownBatch)
	p.silent("nothing more")
}

func fastGapFails(s *stage) {
	stream := s.fast(jetstream.FileStorage)
	p := s.pump(10, "fail")
	p.send("s.a", 1, opStart)
	p.hears()
	p.send("s.a", 2, opAdd)
	p.send("s.a", 4, opAdd)
	p.says("gap", `{"type":"gap","last_seq":3,"seq":4}`, `{"stream":"S","seq":2,"batch":"ID","count":2}`)
	p.send("s.a", 5, opCommit)
	p.says("after it", unknownBatch)
	s.holds("up to the gap", stream, 2, 1, 2)
}

func fastGapPasses(s *stage) {
	stream := s.fast(jetstream.FileStorage)
	p := s.pump(10, "ok")
	p.send("s.a", 1, opStart)
	p.hears()
	p.send("s.a", 2, opAdd)
	p.send("s.a", 5, opAdd)
	p.says("gap", `{"type":"gap","last_seq":3,"seq":5}`)
	p.send("s.a", 6, opCommitEnd)
	p.says("commit", `{"stream":"S","seq":3,"batch":"ID","count":5}`)
	p.silent("nothing more")
	s.holds("without the gap", stream, 3, 1, 3)
	start := s.pump(10, "ok")
	start.send("s.a", 3, opAdd)
	start.says("amid nothing", unknownBatch)
}

func fastExpectations(s *stage) {
	stream := s.fast(jetstream.FileStorage)
	s.fill(3, 3)
	faults := make(chan error, 10)
	note := jetstreamext.WithFastPublisherErrorHandler(func(err error) { faults <- err })
	good := need(jetstreamext.NewFastPublisher(s.js, note))
	need(good.Add("s.a", nil, jetstreamext.WithBatchExpectLastSequence(3), jetstreamext.WithBatchExpectStream("S")))
	need(good.Add("s.b", nil, jetstreamext.WithBatchExpectLastSequenceForSubject(4, "s.a")))
	need(good.Commit(s.ctx, "s.c", nil, jetstreamext.WithBatchMsgTTL(time.Hour)))
	s.holds("all", stream, 6, 1, 6)
	bad := need(jetstreamext.NewFastPublisher(s.js, note, jetstreamext.WithFastPublisherContinueOnGap(true)))
	need(bad.Add("s.a", nil))
	need(bad.Add("s.a", nil, jetstreamext.WithBatchExpectLastSequence(1)))
	fault := need(await(faults, "fault"))
	s.refused("told of it", fault, 10071)
	ack := need(bad.Commit(s.ctx, "s.a", nil))
	s.same("but for the wrong one", []any{ack.BatchSize, ack.Sequence}, []any{3, uint64(8)})
	s.holds("all but one", stream, 8, 1, 8)
}

func fastErrors(s *stage) {
	stream := s.fast(jetstream.FileStorage)
	p := s.pump(10, "fail")
	p.send("s.a", 1, opStart)
	p.hears()
	reply := fmt.Sprintf("%s.10.fail.2.1.$FI", p.inbox)
	must(s.conn.PublishMsg(&nats.Msg{Subject: "s.a", Reply: reply, Header: nats.Header{jetstream.ExpectedLastSeqHeader: {"9"}}}))
	p.says("wrong", `{"type":"err","seq":2,"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 1"}}`,
		`{"stream":"S","seq":1,"batch":"ID","count":1}`)
	s.holds("up to the fault", stream, 1, 1, 1)
}

func fastRefusals(s *stage) {
	s.stream(jetstream.StreamConfig{Name: "T", Subjects: []string{"t"}})
	off := s.pump(10, "fail")
	off.send("t", 1, opStart)
	s.same("not enabled", refusedWith(off.hears()), jetstream.ErrorCode(10205))
	stream := s.fast(jetstream.FileStorage)
	for what, tail := range map[string]string{"no gap": "10.maybe.1.0", "no sequence": "10.fail.x.0",
		"no operation": "10.fail.1.9", "sequence of zero": "10.fail.0.0"} {
		inbox := s.conn.NewInbox()
		sub := need(s.conn.SubscribeSync(inbox + ".>"))
		must(s.conn.PublishRequest("s.a", inbox+"."+tail+".$FI", nil))
		m := need(sub.NextMsg(patience))
		s.same(what, refusedWith(string(m.Data)), jetstream.ErrorCode(10206))
	}
	long := "_INBOX." + strings.Repeat("x", 65)
	sub := need(s.conn.SubscribeSync(long + ".>"))
	must(s.conn.PublishRequest("s.a", long+".10.fail.1.0.$FI", nil))
	s.same("a long id", refusedWith(string(need(sub.NextMsg(patience)).Data)), jetstream.ErrorCode(10207))
	s.holds("nothing", stream, 0, 0, 0)
	publisher := need(jetstreamext.NewFastPublisher(s.js))
	_, err := publisher.Add("t", nil)
	s.same("told to the publisher", err != nil, true)
}

func refusedWith(words string) jetstream.ErrorCode {
	var said struct{ Error *jetstream.APIError }
	if err := json.Unmarshal([]byte(words), &said); err != nil || said.Error == nil {
		return 0
	}
	return said.Error.ErrorCode
}

func fastLimits(s *stage) {
	s.fast(jetstream.FileStorage)
	s.stream(jetstream.StreamConfig{Name: "T", Subjects: []string{"t"}, AllowBatchPublish: true})
	start := func(subject string) jetstream.ErrorCode {
		p := s.pump(10, "fail")
		p.send(subject, 1, opStart)
		return refusedWith(p.hears())
	}
	s.same("first", start("s.a"), jetstream.ErrorCode(0))
	s.same("second", start("s.a"), jetstream.ErrorCode(0))
	s.same("one too many", start("s.a"), jetstream.ErrorCode(10211))
	s.same("of another stream", start("t"), jetstream.ErrorCode(0))
	s.same("one too many of all", start("t"), jetstream.ErrorCode(10211))
	deadline := time.Now().Add(patience)
	for start("s.a") != 0 {
		if time.Now().After(deadline) {
			panic("no batch runs out of time")
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func fastAsync(s *stage) {
	stream := s.stream(jetstream.StreamConfig{AllowBatchPublish: true, PersistMode: jetstream.AsyncPersistMode})
	batch := need(jetstreamext.NewFastPublisher(s.js))
	for range 3000 {
		need(batch.Add("s.a", make([]byte, 100)))
	}
	ack := need(batch.Commit(s.ctx, "s.a", nil))
	s.same("all", ack.BatchSize, 3001)
	s.restart()
	s.holds("after a stop in good order", stream, 3001, 1, 3001)
}

func fastRestart(s *stage) {
	stream := s.fast(jetstream.FileStorage)
	p := s.pump(2, "fail")
	p.send("s.a", 1, opStart)
	p.hears()
	p.send("s.a", 2, opAdd)
	p.says("two", `{"type":"ack","seq":2,"msgs":2}`)
	s.restart()
	s.holds("what was acknowledged", stream, 2, 1, 2)
	p.send("s.a", 3, opAdd)
	p.says("forgotten", unknownBatch)
	again := need(jetstreamext.NewFastPublisher(s.js))
	need(again.Add("s.a", nil))
	ack, err := again.Close(s.ctx)
	s.same("goes on", errors.Join(err) == nil && ack.Sequence == 3, true)
}
