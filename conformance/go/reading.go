package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"
)

// reading holds the scenes in which messages are read and deleted without a consumer.
var reading = []scene{
	{"messages by sequence and subject", withJetStream, onStage(getMessages)},
	{"messages deleted", withJetStream, onStage(deleteMessages)},
	{"batches of messages", withJetStream, onStage(getBatches)},
	{"last messages of many subjects", withJetStream, onStage(getLasts)},
	{"direct gets that are refused", withJetStream, onStage(directRefusals)},
	{"direct gets in the server's words", withJetStream, onStage(directWords)},
	{"a long batch of messages", withJetStream, onStage(longBatch)},
}

func getMessages(s *stage) {
	for _, direct := range []bool{false, true} {
		stream := s.stream(jetstream.StreamConfig{AllowDirect: direct})
		need(s.js.PublishMsg(s.ctx, &nats.Msg{Subject: "s.h", Header: nats.Header{"A": {"1", "2"}, "b": {""}}, Data: []byte("body")}))
		s.fill(9, 3)
		first := need(stream.GetMsg(s.ctx, 1))
		s.same("by sequence", []any{first.Subject, first.Sequence, string(first.Data), first.Header["A"], first.Header["b"]},
			[]any{"s.h", uint64(1), "body", []string{"1", "2"}, []string{""}})
		s.same("its time", time.Since(first.Time) < time.Minute && first.Time.Before(time.Now().Add(time.Second)), true)
		s.same("last of a subject", need(stream.GetLastMsgForSubject(s.ctx, "s.1")).Sequence, uint64(9))
		s.same("last of a wildcard", need(stream.GetLastMsgForSubject(s.ctx, "s.*")).Sequence, uint64(10))
		s.same("next of a subject", need(stream.GetMsg(s.ctx, 4, jetstream.WithGetMsgSubject("s.1"))).Sequence, uint64(6))
		s.same("next of a wildcard", need(stream.GetMsg(s.ctx, 4, jetstream.WithGetMsgSubject("s.>"))).Sequence, uint64(4))
		for what, get := range map[string]func() (*jetstream.RawStreamMsg, error){
			"no such sequence": func() (*jetstream.RawStreamMsg, error) { return stream.GetMsg(s.ctx, 11) },
			"no such subject":  func() (*jetstream.RawStreamMsg, error) { return stream.GetLastMsgForSubject(s.ctx, "s.none") },
			"no next": func() (*jetstream.RawStreamMsg, error) {
				return stream.GetMsg(s.ctx, 10, jetstream.WithGetMsgSubject("s.1"))
			},
			"a sequence far off": func() (*jetstream.RawStreamMsg, error) { return stream.GetMsg(s.ctx, 1<<62) },
			"a foreign subject":  func() (*jetstream.RawStreamMsg, error) { return stream.GetLastMsgForSubject(s.ctx, "x") },
		} {
			_, err := get()
			s.same(what, errors.Is(err, jetstream.ErrMsgNotFound), true)
		}
		must(s.js.DeleteStream(s.ctx, "S"))
	}
}

func deleteMessages(s *stage) {
	stream := s.stream(jetstream.StreamConfig{})
	s.fill(5, 2)
	must(stream.DeleteMsg(s.ctx, 2))
	must(stream.SecureDeleteMsg(s.ctx, 1))
	must(stream.DeleteMsg(s.ctx, 5))
	s.holds("three gone", stream, 2, 3, 5)
	_, err := stream.GetMsg(s.ctx, 2)
	s.same("gone", errors.Is(err, jetstream.ErrMsgNotFound), true)
	s.same("twice", s.ask("STREAM.MSG.DELETE.S", `{"seq":2}`), jetstream.ErrorCode(10057))
	s.same("none", s.ask("STREAM.MSG.DELETE.S", `{"seq":99}`), jetstream.ErrorCode(10057))
	s.same("no sequence", s.ask("STREAM.MSG.DELETE.S", `{}`), jetstream.ErrorCode(10003))
	s.same("no body", s.ask("STREAM.MSG.DELETE.S", ``), jetstream.ErrorCode(10003))
	s.same("the last of what is left", need(stream.GetLastMsgForSubject(s.ctx, "s.*")).Sequence, uint64(4))
}

// gathered reads a batch to its end: the sequences, and why it ended.
func gathered(batch func(yield func(*jetstream.RawStreamMsg, error) bool), err error) ([]uint64, error) {
	sequences := []uint64{}
	if err != nil {
		return sequences, err
	}
	for m, fault := range batch {
		if fault != nil {
			return sequences, fault
		}
		sequences = append(sequences, m.Sequence)
	}
	return sequences, nil
}

func getBatches(s *stage) {
	s.stream(jetstream.StreamConfig{AllowDirect: true})
	s.fill(10, 3)
	time.Sleep(2 * time.Millisecond)
	noon := time.Now()
	s.fill(10, 3)
	for _, c := range []struct {
		what    string
		count   int
		options []jetstreamext.GetBatchOpt
		want    []uint64
	}{
		{"from the start", 4, nil, []uint64{1, 2, 3, 4}},
		{"from a sequence", 3, []jetstreamext.GetBatchOpt{jetstreamext.GetBatchSeq(9)}, []uint64{9, 10, 11}},
		{"of a subject", 4, []jetstreamext.GetBatchOpt{jetstreamext.GetBatchSubject("s.1")}, []uint64{2, 5, 8, 12}},
		{"from a sequence, of a subject", 9, []jetstreamext.GetBatchOpt{jetstreamext.GetBatchSeq(9), jetstreamext.GetBatchSubject("s.2")}, []uint64{9, 13, 16, 19}},
		{"since a time", 2, []jetstreamext.GetBatchOpt{jetstreamext.GetBatchStartTime(noon)}, []uint64{11, 12}},
		{"no more than there are", 100, []jetstreamext.GetBatchOpt{jetstreamext.GetBatchSeq(19)}, []uint64{19, 20}},
		{"so many bytes", 100, []jetstreamext.GetBatchOpt{jetstreamext.GetBatchMaxBytes(15)}, []uint64{1, 2, 3}},
	} {
		got, err := gathered(jetstreamext.GetBatch(s.ctx, s.js, "S", c.count, c.options...))
		s.same(c.what, got, c.want)
		s.same(c.what, err, nil)
	}
	_, err := gathered(jetstreamext.GetBatch(s.ctx, s.js, "S", 5, jetstreamext.GetBatchSeq(21)))
	s.same("after the end", errors.Is(err, jetstreamext.ErrNoMessages), true)
	_, err = gathered(jetstreamext.GetBatch(s.ctx, s.js, "S", 5, jetstreamext.GetBatchSubject("s.none")))
	s.same("of none", errors.Is(err, jetstreamext.ErrNoMessages), true)
	_, err = gathered(jetstreamext.GetBatch(s.ctx, s.js, "S", 5, jetstreamext.GetBatchStartTime(time.Now().Add(time.Hour))))
	s.same("of tomorrow", errors.Is(err, jetstreamext.ErrNoMessages), true)
}

func getLasts(s *stage) {
	s.stream(jetstream.StreamConfig{AllowDirect: true})
	s.fill(10, 5)
	time.Sleep(2 * time.Millisecond)
	noon := time.Now()
	s.fill(7, 7)
	type options = []jetstreamext.GetLastForOpt
	for _, c := range []struct {
		what     string
		subjects []string
		options  options
		want     []uint64
	}{
		{"some", []string{"s.1", "s.3"}, nil, []uint64{12, 14}},
		{"all", []string{"s.*"}, nil, []uint64{11, 12, 13, 14, 15, 16, 17}},
		{"one of them not there", []string{"s.0", "s.none"}, nil, []uint64{11}},
		{"overlapping", []string{"s.*", "s.1", "s.>"}, nil, []uint64{11, 12, 13, 14, 15, 16, 17}},
		{"up to a sequence", []string{"s.>"}, options{jetstreamext.GetLastMsgsUpToSeq(8)}, []uint64{4, 5, 6, 7, 8}},
		{"up to a time", []string{"s.>"}, options{jetstreamext.GetLastMsgsUpToTime(noon)}, []uint64{6, 7, 8, 9, 10}},
		{"three of them", []string{"s.>"}, options{jetstreamext.GetLastMsgsBatchSize(3)}, []uint64{11, 12, 13}},
	} {
		got, err := gathered(jetstreamext.GetLastMsgsFor(s.ctx, s.js, "S", c.subjects, c.options...))
		s.same(c.what, got, c.want)
		s.same(c.what, err, nil)
	}
	_, err := gathered(jetstreamext.GetLastMsgsFor(s.ctx, s.js, "S", []string{"x.*"}))
	s.same("none", errors.Is(err, jetstreamext.ErrNoMessages), true)
}

func directRefusals(s *stage) {
	stream := s.stream(jetstream.StreamConfig{})
	need(s.js.Publish(s.ctx, "s.a", nil))
	ctx, cancel := context.WithTimeout(s.ctx, time.Second)
	defer cancel()
	got, err := gathered(jetstreamext.GetBatch(ctx, s.js, "S", 5))
	s.same("not allowed", []any{len(got), err != nil}, []any{0, true})
	_, err = s.conn.Request("$JS.API.DIRECT.GET.S", []byte(`{"seq":1}`), patience)
	s.same("no responders", errors.Is(err, nats.ErrNoResponders), true)
	config := stream.CachedInfo().Config
	config.AllowDirect = true
	need(s.js.UpdateStream(s.ctx, config))
	for body, want := range map[string]string{
		`{}`: "408 Empty Request", ``: "408 Empty Request", `{"seq":`: "408 Malformed Request",
		`{"seq":1,"last_by_subj":"s.a"}`: "408 Bad Request", `{"seq":9}`: "404 Message Not Found",
		`{"batch":3}`: "408 Empty Request",
	} {
		m := need(s.conn.Request("$JS.API.DIRECT.GET.S", []byte(body), patience))
		s.same(body, m.Header.Get("Status")+" "+m.Header.Get("Description"), want)
	}
	for i := range 1025 {
		need(s.js.PublishAsync(fmt.Sprintf("s.many.%d", i), nil))
	}
	need(await(s.js.PublishAsyncComplete(), "end of publishing"))
	m := need(s.conn.Request("$JS.API.DIRECT.GET.S", []byte(`{"multi_last":["s.many.*"]}`), patience))
	s.same("too many", m.Header.Get("Status")+" "+m.Header.Get("Description"), "413 Too Many Results")
}

func directWords(s *stage) {
	s.stream(jetstream.StreamConfig{AllowDirect: true})
	s.fill(3, 2)
	need(s.js.PublishMsg(s.ctx, &nats.Msg{Subject: "s.h", Header: nats.Header{"A": {"x"}}, Data: []byte("body")}))
	last := need(s.conn.Request("$JS.API.DIRECT.GET.S.s.h", nil, patience))
	s.same("by subject", []string{string(last.Data), last.Header.Get("A"), last.Header.Get(jetstream.StreamHeader),
		last.Header.Get(jetstream.SubjectHeader), last.Header.Get(jetstream.SequenceHeader)}, []string{"body", "x", "S", "s.h", "4"})
	inbox := s.conn.NewInbox()
	sub := need(s.conn.SubscribeSync(inbox))
	must(s.conn.PublishRequest("$JS.API.DIRECT.GET.S", inbox, []byte(`{"batch":2,"seq":1}`)))
	words := []string{}
	for range 3 {
		m := need(sub.NextMsg(patience))
		words = append(words, strings.Join([]string{m.Header.Get("Status"), m.Header.Get("Description"), m.Header.Get("Nats-Num-Pending"),
			m.Header.Get("Nats-Last-Sequence"), m.Header.Get("Nats-Sequence"), m.Header.Get("Nats-UpTo-Sequence")}, "|"))
	}
	s.same("a batch and its end", words, []string{"||3|0|1|", "||2|1|2|", "204|EOB|2|2||"})
}

func longBatch(s *stage) {
	stream := s.stream(jetstream.StreamConfig{AllowDirect: true})
	const count = 5000
	for i := range count {
		need(s.js.PublishAsync(fmt.Sprintf("s.%d", i%100), make([]byte, 1000), jetstream.WithStallWait(patience)))
	}
	need(await(s.js.PublishAsyncComplete(), "end of publishing"))
	s.holds("all", stream, count, 1, count)
	read, next := 0, uint64(1)
	for read < count {
		got, err := gathered(jetstreamext.GetBatch(s.ctx, s.js, "S", 1000, jetstreamext.GetBatchSeq(next)))
		must(err)
		if len(got) == 0 || got[0] != next {
			s.same("next", got, next)
			return
		}
		read, next = read+len(got), got[len(got)-1]+1
	}
	s.same("all read", [2]int{read, int(next)}, [2]int{count, count + 1})
}
