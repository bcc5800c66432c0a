package main

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// streams holds the scenes about streams themselves: making, changing, listing and emptying them.
var streams = []scene{
	{"a stream's life", withJetStream, onStage(streamLife)},
	{"a stream made twice", withJetStream, onStage(streamTwice)},
	{"every field of a stream's configuration", withJetStream, onStage(streamFields)},
	{"configurations that are refused", withJetStream, onStage(streamRefusals)},
	{"updates that are refused", withJetStream, onStage(updateRefusals)},
	{"pages of streams", withJetStream, onStage(streamPages)},
	{"a stream's subjects and holes", withJetStream, onStage(streamDetails)},
	{"purge", withJetStream, onStage(purge)},
	{"purge and delete denied, sealed", withJetStream, onStage(denied)},
	{"limits of a stream, the old make room", withJetStream, onStage(discardOld)},
	{"limits of a stream, the new are refused", withJetStream, onStage(discardNew)},
	{"limits lowered by an update", withJetStream, onStage(limitsLowered)},
	{"messages grow old", withJetStream, onStage(maxAge)},
	{"streams after a restart", withJetStream, onStage(streamsAfterRestart, nats.ReconnectWait(20*time.Millisecond))},
	{"compressed and encrypted streams after a restart", `jetstream { store_dir: ROOM, key: "k3y", cipher: aes }`,
		onStage(compressedAfterRestart, nats.ReconnectWait(20*time.Millisecond))},
	{"account info", withJetStream, onStage(accountInfo)},
	{"limits of an account", `jetstream { store_dir: ROOM }
accounts { A { users: [{user: a, password: a}], jetstream { max_streams: 2, max_mem: 1MB, max_file: 1MB } }
           B { users: [{user: b, password: b}] } }
no_auth_user: a`, onStage(accountLimits)},
	{"an account without JetStream", `jetstream { store_dir: ROOM }
accounts { A { users: [{user: a, password: a}] }, B { users: [{user: b, password: b}], jetstream: enabled } }
no_auth_user: a`, onStage(noJetStream)},
	{"a server without JetStream", "", onStage(noJetStreamAtAll)},
	{"a domain", `jetstream { store_dir: ROOM, domain: hub }`, onStage(domain)},
}

func streamLife(s *stage) {
	stream := s.stream(jetstream.StreamConfig{Description: "first"})
	created := stream.CachedInfo().Created
	s.same("young", time.Since(created) < time.Minute, true)
	s.fill(3, 2)
	s.holds("filled", stream, 3, 1, 3)
	config := stream.CachedInfo().Config
	config.Description, config.MaxMsgs, config.Subjects = "second", 2, []string{"s.>", "t"}
	updated := need(s.js.UpdateStream(s.ctx, config))
	s.same("description", updated.CachedInfo().Config.Description, "second")
	s.same("created", updated.CachedInfo().Created, created)
	s.holds("cut", updated, 2, 2, 3)
	need(s.js.Publish(s.ctx, "t", nil))
	s.holds("new subject", updated, 2, 3, 4)
	need(s.js.Stream(s.ctx, "S"))
	must(s.js.DeleteStream(s.ctx, "S"))
	_, err := s.js.Stream(s.ctx, "S")
	s.refused("gone", err, jetstream.JSErrCodeStreamNotFound)
	s.refused("deleted twice", s.js.DeleteStream(s.ctx, "S"), jetstream.JSErrCodeStreamNotFound)
	_, err = s.js.UpdateStream(s.ctx, config)
	s.refused("update of none", err, jetstream.JSErrCodeStreamNotFound)
	again := need(s.js.CreateOrUpdateStream(s.ctx, config))
	s.holds("again", again, 0, 0, 0)
}

func streamTwice(s *stage) {
	config := jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}}
	first := s.stream(config)
	second := s.stream(config)
	s.same("the same", second.CachedInfo().Created, first.CachedInfo().Created)
	config.MaxMsgs = 5
	_, err := s.js.CreateStream(s.ctx, config)
	s.refused("another of the name", err, 10058)
	for _, subjects := range [][]string{{"s.a"}, {"s.*"}, {"x", "s.>"}} {
		_, err = s.js.CreateStream(s.ctx, jetstream.StreamConfig{Name: "T", Subjects: subjects})
		s.refused(fmt.Sprint("overlap of ", subjects), err, 10065)
	}
	for _, subjects := range [][]string{{">"}, {"*.a"}} {
		_, err = s.js.CreateStream(s.ctx, jetstream.StreamConfig{Name: "T", Subjects: subjects})
		s.refused(fmt.Sprint("too much: ", subjects), err, 10052)
	}
}

func streamFields(s *stage) {
	s.stream(jetstream.StreamConfig{Name: "ORIGIN", Subjects: []string{"o.>"}})
	asked := jetstream.StreamConfig{
		Name: "S", Description: "all", Subjects: []string{"s.>", "t.*"}, Retention: jetstream.LimitsPolicy,
		MaxConsumers: 7, MaxMsgs: 1000, MaxBytes: 1 << 20, Discard: jetstream.DiscardNew, DiscardNewPerSubject: true,
		MaxAge: time.Hour, MaxMsgsPerSubject: 10, MaxMsgSize: 1 << 10, Storage: jetstream.MemoryStorage, Replicas: 1,
		NoAck: true, Duplicates: 30 * time.Second, DenyDelete: true, DenyPurge: false, AllowRollup: true,
		Compression: jetstream.NoCompression, FirstSeq: 100,
		SubjectTransform: &jetstream.SubjectTransformConfig{Source: "s.>", Destination: "in.>"},
		RePublish:        &jetstream.RePublish{Source: "in.>", Destination: "out.>", HeadersOnly: true},
		AllowDirect:      true, ConsumerLimits: jetstream.StreamConsumerLimits{InactiveThreshold: time.Minute, MaxAckPending: 9},
		Metadata: map[string]string{"who": "me"}, AllowMsgTTL: true, SubjectDeleteMarkerTTL: time.Minute,
	}
	got := s.stream(asked).CachedInfo().Config
	levels := map[string]string{}
	for key, value := range got.Metadata {
		if strings.HasPrefix(key, "_nats.") && key != "_nats.ver" {
			levels[key] = value
		}
	}
	s.same("API levels", levels, map[string]string{"_nats.level": "5", "_nats.req.level": "1"})
	got.Metadata = map[string]string{"who": got.Metadata["who"]}
	s.same("what was asked", got, asked)
	batched := s.stream(jetstream.StreamConfig{Name: "B", Subjects: []string{"b.>"}, AllowAtomicPublish: true,
		AllowBatchPublish: true, Compression: jetstream.S2Compression}).CachedInfo().Config
	s.same("batches", []any{batched.AllowAtomicPublish, batched.AllowBatchPublish, batched.Compression},
		[]any{true, true, jetstream.S2Compression})
	async := s.stream(jetstream.StreamConfig{Name: "P", Subjects: []string{"p.>"}, PersistMode: jetstream.AsyncPersistMode})
	s.same("persist mode", async.CachedInfo().Config.PersistMode, jetstream.AsyncPersistMode)
	plain := s.stream(jetstream.StreamConfig{Name: "D", Subjects: []string{"d"}}).CachedInfo().Config
	s.same("defaults", []any{plain.MaxConsumers, plain.MaxMsgs, plain.MaxBytes, plain.MaxMsgsPerSubject, plain.MaxMsgSize,
		plain.Replicas, plain.Duplicates, plain.Storage, plain.Discard},
		[]any{-1, int64(-1), int64(-1), int64(-1), int32(-1), 1, 2 * time.Minute, jetstream.FileStorage, jetstream.DiscardOld})
	short := s.stream(jetstream.StreamConfig{Name: "W", Subjects: []string{"w"}, MaxAge: time.Second}).CachedInfo().Config
	s.same("window within the age", short.Duplicates, time.Second)
	bare := need(s.js.CreateStream(s.ctx, jetstream.StreamConfig{Name: "bare"})).CachedInfo().Config
	s.same("its name is its subject", bare.Subjects, []string{"bare"})
}

func streamRefusals(s *stage) {
	type config = jetstream.StreamConfig
	s.stream(config{Name: "OTHER", Subjects: []string{"other"}})
	one := []string{"s"}
	for what, c := range map[string]struct {
		config config
		code   jetstream.ErrorCode
	}{
		"window above the age":      {config{Subjects: one, MaxAge: time.Second, Duplicates: time.Minute}, 10052},
		"age below a millisecond":   {config{Subjects: one, MaxAge: time.Microsecond}, 10052},
		"negative window":           {config{Subjects: one, Duplicates: -1}, 10052},
		"replicas":                  {config{Subjects: one, Replicas: 3}, 10074},
		"too many replicas":         {config{Subjects: one, Replicas: 6}, 10052},
		"subject twice":             {config{Subjects: []string{"a", "a"}}, 10052},
		"subjects overlap":          {config{Subjects: []string{"a.>", "a.b"}}, 10052},
		"subject not valid":         {config{Subjects: []string{"a..b"}}, 10052},
		"subject of the API":        {config{Subjects: []string{"$JS.API.>"}}, 10052},
		"subject of everything":     {config{Subjects: []string{">"}}, 10052},
		"everything without acks":   {config{Subjects: []string{"x.>"}, NoAck: true}, 0},
		"new per subject, no limit": {config{Subjects: one, Discard: jetstream.DiscardNew, DiscardNewPerSubject: true}, 10052},
		"new per subject, old":      {config{Subjects: one, MaxMsgsPerSubject: 1, DiscardNewPerSubject: true}, 10052},
		"marker, purge denied":      {config{Subjects: one, SubjectDeleteMarkerTTL: time.Second, DenyPurge: true}, 0},
		"marker below a second":     {config{Subjects: one, SubjectDeleteMarkerTTL: time.Millisecond}, 10052},
		"counter with TTL":          {config{Subjects: one, AllowMsgCounter: true, AllowMsgTTL: true}, 10052},
		"counter on new":            {config{Subjects: one, AllowMsgCounter: true, Discard: jetstream.DiscardNew}, 10052},
		"async in memory":           {config{Subjects: one, PersistMode: jetstream.AsyncPersistMode, Storage: jetstream.MemoryStorage}, 10052},
		"async and atomic":          {config{Subjects: one, PersistMode: jetstream.AsyncPersistMode, AllowAtomicPublish: true}, 10052},
		"republish to itself":       {config{Subjects: []string{"s.>"}, RePublish: &jetstream.RePublish{Source: ">", Destination: "s.>"}}, 10052},
		"transform of none":         {config{Subjects: []string{"s.>"}, SubjectTransform: &jetstream.SubjectTransformConfig{Source: "s.*", Destination: "$1$2.{{wildcard(2)}}"}}, 10156},
		"mirror with subjects":      {config{Subjects: one, Mirror: &jetstream.StreamSource{Name: "OTHER"}}, 10034},
		"mirror of itself":          {config{Mirror: &jetstream.StreamSource{Name: "S"}}, 10052},
		"rollup without purge":      {config{Subjects: one, AllowRollup: true, DenyPurge: true}, 10052},
		"first sequence of mirror":  {config{Mirror: &jetstream.StreamSource{Name: "OTHER"}, FirstSeq: 3}, 10143},
		"sealed at birth":           {config{Subjects: one, Sealed: true}, 10052},
		"long description":          {config{Subjects: one, Description: strings.Repeat("d", 4097)}, 10052},
		"much metadata":             {config{Subjects: one, Metadata: map[string]string{"k": strings.Repeat("v", 128<<10)}}, 10052},
		"pedantic of nothing":       {config{Subjects: one}, 0},
	} {
		c.config.Name = "S"
		_, err := s.js.CreateStream(s.ctx, c.config)
		s.refused(what, err, c.code)
		_ = s.js.DeleteStream(s.ctx, "S")
	}
	s.same("long name", s.ask("STREAM.CREATE."+strings.Repeat("n", 256), fmt.Sprintf(`{"name":%q}`, strings.Repeat("n", 256))),
		jetstream.ErrorCode(10052))
	s.same("another name", s.ask("STREAM.CREATE.A", `{"name":"B"}`), jetstream.ErrorCode(10056))
	s.same("no JSON", s.ask("STREAM.CREATE.A", `{"name":`), jetstream.ErrorCode(10025))
	s.same("unknown field", s.ask("STREAM.CREATE.A", `{"name":"A","colour":1}`), jetstream.ErrorCode(10025))
	s.same("pedantic", s.ask("STREAM.CREATE.A", `{"name":"A","max_age":1000000000,"duplicate_window":0,"pedantic":true}`),
		jetstream.ErrorCode(10157))
	s.same("info of none", s.ask("STREAM.INFO.NONE", ""), jetstream.ErrorCode(10059))
	s.same("a body too many", s.ask("STREAM.DELETE.OTHER", "{x}"), jetstream.ErrorCode(10038))
}

func updateRefusals(s *stage) {
	base := jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}, MaxConsumers: 5, AllowMsgTTL: true, DenyDelete: true,
		DenyPurge: true, FirstSeq: 10}
	s.stream(base)
	s.stream(jetstream.StreamConfig{Name: "OTHER", Subjects: []string{"other.>"}})
	for what, change := range map[string]struct {
		apply func(*jetstream.StreamConfig)
		code  jetstream.ErrorCode
	}{
		"storage":      {func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage }, 10052},
		"retention":    {func(c *jetstream.StreamConfig) { c.Retention = jetstream.WorkQueuePolicy }, 10052},
		"consumers":    {func(c *jetstream.StreamConfig) { c.MaxConsumers = 9 }, 0},
		"replicas":     {func(c *jetstream.StreamConfig) { c.Replicas = 3 }, 10074},
		"deny delete":  {func(c *jetstream.StreamConfig) { c.DenyDelete = false }, 10052},
		"deny purge":   {func(c *jetstream.StreamConfig) { c.DenyPurge = false }, 10052},
		"TTL":          {func(c *jetstream.StreamConfig) { c.AllowMsgTTL = false }, 10052},
		"counter":      {func(c *jetstream.StreamConfig) { c.AllowMsgCounter = true }, 10052},
		"persist mode": {func(c *jetstream.StreamConfig) { c.PersistMode = jetstream.AsyncPersistMode }, 10052},
		"mirror": {func(c *jetstream.StreamConfig) {
			c.Subjects, c.FirstSeq = nil, 0
			c.Mirror = &jetstream.StreamSource{Name: "OTHER"}
		}, 10055},
		"others' subject": {func(c *jetstream.StreamConfig) { c.Subjects = []string{"other.x"} }, 10065},
		"first sequence":  {func(c *jetstream.StreamConfig) { c.FirstSeq = 20 }, 0},
		"compression":     {func(c *jetstream.StreamConfig) { c.Compression = jetstream.S2Compression }, 0},
		"direct":          {func(c *jetstream.StreamConfig) { c.AllowDirect = true }, 0},
		"batches":         {func(c *jetstream.StreamConfig) { c.AllowAtomicPublish, c.AllowBatchPublish = true, true }, 0},
	} {
		config := base
		change.apply(&config)
		_, err := s.js.UpdateStream(s.ctx, config)
		s.refused(what, err, change.code)
	}
}

func streamPages(s *stage) {
	const count = 300
	want := []string{}
	for i := range count {
		name := fmt.Sprintf("P%03d", i)
		want = append(want, name)
		s.stream(jetstream.StreamConfig{Name: name, Subjects: []string{fmt.Sprintf("p.%d.%d", i%3, i)}, Storage: jetstream.MemoryStorage})
	}
	names := []string{}
	lister := s.js.StreamNames(s.ctx)
	for name := range lister.Name() {
		names = append(names, name)
	}
	must(lister.Err())
	s.same("names", names, want)
	infos := []string{}
	list := s.js.ListStreams(s.ctx)
	for info := range list.Info() {
		infos = append(infos, info.Config.Name)
	}
	must(list.Err())
	s.same("infos", infos, want)
	some := 0
	filtered := s.js.ListStreams(s.ctx, jetstream.WithStreamListSubject("p.1.*"))
	for range filtered.Info() {
		some++
	}
	must(filtered.Err())
	s.same("of a subject", some, count/3)
	s.same("by subject", need(s.js.StreamNameBySubject(s.ctx, "p.1.4")), "P004")
	_, err := s.js.StreamNameBySubject(s.ctx, "nowhere")
	s.refused("by no subject", err, jetstream.JSErrCodeStreamNotFound)
}

func streamDetails(s *stage) {
	stream := s.stream(jetstream.StreamConfig{})
	s.fill(30, 10)
	for _, sequence := range []uint64{5, 6, 17, 29} {
		must(stream.DeleteMsg(s.ctx, sequence))
	}
	state := s.state(stream, jetstream.WithDeletedDetails(true), jetstream.WithSubjectFilter("s.>"))
	s.same("holes", state.Deleted, []uint64{5, 6, 17, 29})
	s.same("count of holes", state.NumDeleted, 4)
	s.same("count of subjects", state.NumSubjects, uint64(10))
	s.same("a subject's messages", [3]uint64{state.Subjects["s.4"], state.Subjects["s.6"], state.Subjects["s.0"]}, [3]uint64{2, 2, 3})
	some := s.state(stream, jetstream.WithSubjectFilter("s.7"))
	s.same("one subject", some.Subjects, map[string]uint64{"s.7": 3})
	s.same("no holes asked", some.Deleted, []uint64(nil))
	none := s.state(stream, jetstream.WithSubjectFilter("x"))
	s.same("no subject", len(none.Subjects), 0)
	plain := s.state(stream)
	s.same("nothing asked", [2]int{len(plain.Subjects), plain.NumDeleted}, [2]int{0, 4})
}

func purge(s *stage) {
	stream := s.stream(jetstream.StreamConfig{})
	s.fill(20, 4)
	must(stream.Purge(s.ctx, jetstream.WithPurgeSubject("s.1")))
	s.holds("one subject", stream, 15, 1, 20)
	must(stream.Purge(s.ctx, jetstream.WithPurgeSequence(9)))
	s.holds("before a sequence", stream, 9, 9, 20)
	must(stream.Purge(s.ctx, jetstream.WithPurgeSubject("s.3"), jetstream.WithPurgeKeep(1)))
	s.holds("all but one of a subject", stream, 7, 9, 20)
	must(stream.Purge(s.ctx, jetstream.WithPurgeKeep(3)))
	s.holds("all but three", stream, 3, 17, 20)
	must(stream.Purge(s.ctx, jetstream.WithPurgeSubject("s.0"), jetstream.WithPurgeSequence(18)))
	s.holds("a subject before a sequence", stream, 2, 19, 20)
	must(stream.Purge(s.ctx))
	s.holds("all", stream, 0, 21, 20)
	s.same("both", s.ask("STREAM.PURGE.S", `{"seq":3,"keep":1}`), jetstream.ErrorCode(10003))
	s.same("of none", s.ask("STREAM.PURGE.NONE", ""), jetstream.ErrorCode(10059))
	need(s.js.Publish(s.ctx, "s.9", nil))
	s.holds("goes on", stream, 1, 21, 21)
	must(stream.Purge(s.ctx, jetstream.WithPurgeSequence(100)))
	s.holds("before one that is not there yet", stream, 0, 100, 99)
}

func denied(s *stage) {
	stream := s.stream(jetstream.StreamConfig{DenyDelete: true, DenyPurge: true})
	s.fill(3, 1)
	s.same("delete", s.ask("STREAM.MSG.DELETE.S", `{"seq":1}`), jetstream.ErrorCode(10057))
	s.refused("purge", stream.Purge(s.ctx), 10110)
	other := s.stream(jetstream.StreamConfig{Name: "T", Subjects: []string{"t"}})
	need(s.js.Publish(s.ctx, "t", nil))
	config := other.CachedInfo().Config
	config.Sealed = true
	sealed := need(s.js.UpdateStream(s.ctx, config)).CachedInfo().Config
	s.same("sealed", []bool{sealed.Sealed, sealed.DenyDelete, sealed.DenyPurge}, []bool{true, true, true})
	_, err := s.js.Publish(s.ctx, "t", nil)
	s.refused("publish to a sealed stream", err, 10109)
	s.refused("purge of a sealed stream", other.Purge(s.ctx), 10109)
	config.Sealed = false
	_, err = s.js.UpdateStream(s.ctx, config)
	s.refused("unsealed", err, 10052)
	must(s.js.DeleteStream(s.ctx, "T"))
}

func discardOld(s *stage) {
	count := s.stream(jetstream.StreamConfig{MaxMsgs: 5})
	s.fill(8, 2)
	s.holds("by count", count, 5, 4, 8)
	each := s.stream(jetstream.StreamConfig{Name: "T", Subjects: []string{"t.*"}, MaxMsgsPerSubject: 2})
	for _, subject := range []string{"t.a", "t.a", "t.b", "t.a", "t.b", "t.b"} {
		need(s.js.Publish(s.ctx, subject, nil))
	}
	s.holds("by subject", each, 4, 2, 6)
	bytes := s.stream(jetstream.StreamConfig{Name: "U", Subjects: []string{"u"}, MaxBytes: 1000})
	for range 10 {
		need(s.js.Publish(s.ctx, "u", make([]byte, 177)))
	}
	s.same("by size", [2]uint64{s.state(bytes).Msgs, s.state(bytes).Bytes}, [2]uint64{4, 832})
	sized := s.stream(jetstream.StreamConfig{Name: "V", Subjects: []string{"v"}, MaxMsgSize: 10})
	need(s.js.Publish(s.ctx, "v", make([]byte, 10)))
	_, err := s.js.Publish(s.ctx, "v", make([]byte, 11))
	s.refused("message too large", err, 10054)
	s.holds("only the small one", sized, 1, 1, 1)
}

func discardNew(s *stage) {
	count := s.stream(jetstream.StreamConfig{MaxMsgs: 3, Discard: jetstream.DiscardNew})
	s.fill(3, 1)
	_, err := s.js.Publish(s.ctx, "s.0", nil)
	s.refused("count", err, 10077)
	s.holds("count", count, 3, 1, 3)
	must(count.DeleteMsg(s.ctx, 2))
	need(s.js.Publish(s.ctx, "s.0", nil))
	s.stream(jetstream.StreamConfig{Name: "U", Subjects: []string{"u"}, MaxBytes: 500, Discard: jetstream.DiscardNew})
	need(s.js.Publish(s.ctx, "u", make([]byte, 400)))
	_, err = s.js.Publish(s.ctx, "u", make([]byte, 400))
	s.refused("size", err, 10077)
	each := s.stream(jetstream.StreamConfig{Name: "T", Subjects: []string{"t.*"}, MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew,
		DiscardNewPerSubject: true})
	need(s.js.Publish(s.ctx, "t.a", nil))
	_, err = s.js.Publish(s.ctx, "t.a", nil)
	s.refused("subject", err, 10077)
	need(s.js.Publish(s.ctx, "t.b", nil))
	s.holds("subject", each, 2, 1, 2)
}

func limitsLowered(s *stage) {
	stream := s.stream(jetstream.StreamConfig{})
	s.fill(20, 4)
	config := stream.CachedInfo().Config
	config.MaxMsgsPerSubject = 3
	need(s.js.UpdateStream(s.ctx, config))
	s.holds("per subject", stream, 12, 9, 20)
	config.MaxMsgs = 5
	need(s.js.UpdateStream(s.ctx, config))
	s.holds("count", stream, 5, 16, 20)
	config.MaxBytes = int64(s.state(stream).Bytes) - 1
	need(s.js.UpdateStream(s.ctx, config))
	s.holds("size", stream, 4, 17, 20)
	config.MaxAge, config.Duplicates = 200*time.Millisecond, 100*time.Millisecond
	need(s.js.UpdateStream(s.ctx, config))
	s.becomes("age", stream, 0)
	s.holds("age", stream, 0, 21, 20)
}

func maxAge(s *stage) {
	for _, storage := range []jetstream.StorageType{jetstream.FileStorage, jetstream.MemoryStorage} {
		stream := s.stream(jetstream.StreamConfig{Storage: storage, MaxAge: 300 * time.Millisecond})
		s.fill(10, 3)
		s.same("there at first", s.state(stream).LastSeq, uint64(10))
		s.becomes("all gone", stream, 0)
		s.holds("place kept", stream, 0, 11, 10)
		must(s.js.DeleteStream(s.ctx, "S"))
	}
}

func streamsAfterRestart(s *stage) {
	kept := s.stream(jetstream.StreamConfig{Metadata: map[string]string{"who": "me"}, MaxMsgs: 100})
	memory := s.stream(jetstream.StreamConfig{Name: "M", Subjects: []string{"m"}, Storage: jetstream.MemoryStorage})
	s.stream(jetstream.StreamConfig{Name: "GONE", Subjects: []string{"g"}})
	must(s.js.DeleteStream(s.ctx, "GONE"))
	s.fill(120, 7)
	must(kept.DeleteMsg(s.ctx, 50))
	need(s.js.Publish(s.ctx, "m", nil))
	before := need(kept.Info(s.ctx, jetstream.WithDeletedDetails(true), jetstream.WithSubjectFilter(">")))
	s.restart()
	after := need(kept.Info(s.ctx, jetstream.WithDeletedDetails(true), jetstream.WithSubjectFilter(">")))
	s.same("configuration", after.Config, before.Config)
	s.same("created", after.Created, before.Created)
	s.same("state", after.State, before.State)
	_, err := memory.Info(s.ctx)
	s.refused("the one in memory", err, jetstream.JSErrCodeStreamNotFound)
	names := []string{}
	for name := range s.js.StreamNames(s.ctx).Name() {
		names = append(names, name)
	}
	sort.Strings(names)
	s.same("names", names, []string{"S"})
	s.same("goes on", need(s.js.Publish(s.ctx, "s.0", nil)).Sequence, uint64(121))
}

func compressedAfterRestart(s *stage) {
	stream := s.stream(jetstream.StreamConfig{Compression: jetstream.S2Compression})
	body := slices.Repeat([]byte("much the same "), 1000)
	for range 20 {
		need(s.js.Publish(s.ctx, "s.a", body))
	}
	s.restart()
	s.holds("all there", stream, 20, 1, 20)
	for _, sequence := range []uint64{1, 10, 20} {
		s.same("as it was", string(need(stream.GetMsg(s.ctx, sequence)).Data), string(body))
	}
}

func accountInfo(s *stage) {
	info := need(s.js.AccountInfo(s.ctx))
	s.same("empty", [3]uint64{uint64(info.Streams), info.Memory, info.Store}, [3]uint64{})
	s.same("unlimited", [3]int64{info.Limits.MaxMemory, info.Limits.MaxStore, int64(info.Limits.MaxStreams)}, [3]int64{-1, -1, -1})
	s.stream(jetstream.StreamConfig{})
	s.stream(jetstream.StreamConfig{Name: "M", Subjects: []string{"m"}, Storage: jetstream.MemoryStorage})
	s.fill(4, 4)
	need(s.js.Publish(s.ctx, "m", []byte("12345")))
	_, err := s.js.Stream(s.ctx, "NONE")
	s.refused("none", err, jetstream.JSErrCodeStreamNotFound)
	info = need(s.js.AccountInfo(s.ctx))
	s.same("used", [3]uint64{uint64(info.Streams), info.Memory, info.Store}, [3]uint64{2, 22, 140})
	s.same("requests", [2]uint64{info.API.Total, info.API.Errors}, [2]uint64{4, 1})
}

func accountLimits(s *stage) {
	s.stream(jetstream.StreamConfig{MaxBytes: 700_000})
	_, err := s.js.CreateStream(s.ctx, jetstream.StreamConfig{Name: "T", Subjects: []string{"t"}, MaxBytes: 700_000})
	s.refused("reservation", err, 10047)
	_, err = s.js.CreateStream(s.ctx, jetstream.StreamConfig{Name: "T", Subjects: []string{"t"}, MaxBytes: 2 << 20, Storage: jetstream.MemoryStorage})
	s.refused("reservation in memory", err, 10028)
	s.stream(jetstream.StreamConfig{Name: "M", Subjects: []string{"m"}, Storage: jetstream.MemoryStorage})
	_, err = s.js.CreateStream(s.ctx, jetstream.StreamConfig{Name: "T", Subjects: []string{"t"}})
	s.refused("one too many", err, 10027)
	for range 10 {
		_, err = s.js.Publish(s.ctx, "m", make([]byte, 120_000))
	}
	s.refused("memory", err, 10002)
	info := need(s.js.AccountInfo(s.ctx))
	s.same("limits", [3]int64{info.Limits.MaxMemory, info.Limits.MaxStore, int64(info.Limits.MaxStreams)}, [3]int64{1 << 20, 1 << 20, 2})
}

func noJetStream(s *stage) {
	_, err := s.js.AccountInfo(s.ctx)
	s.refused("not for the account", err, jetstream.JSErrCodeJetStreamNotEnabledForAccount)
}

func noJetStreamAtAll(s *stage) {
	_, err := s.js.AccountInfo(s.ctx)
	s.refused("not for the server", err, jetstream.JSErrCodeJetStreamNotEnabled)
}

func domain(s *stage) {
	s.stream(jetstream.StreamConfig{})
	js := need(jetstream.NewWithDomain(s.conn, "hub"))
	ack := need(js.Publish(s.ctx, "s.a", nil))
	s.same("of the domain", [2]string{ack.Stream, ack.Domain}, [2]string{"S", "hub"})
	s.same("info", need(need(js.Stream(s.ctx, "S")).Info(s.ctx)).State.Msgs, uint64(1))
	s.same("account", need(js.AccountInfo(s.ctx)).Domain, "hub")
}
