// franz-go (kgo and kadm) against the broker at os.Args[1]. Prints "proved: ..." for what it asserted.
package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

var (
	seed = os.Args[1]
	ctx  context.Context
	adm  *kadm.Client
)

func fail(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	os.Exit(1)
}

func must(err error, what string) {
	if err != nil {
		fail("%s: %v", what, err)
	}
}

func proved(format string, args ...any) { fmt.Printf("proved: "+format+"\n", args...) }

func unique(prefix string) string { return fmt.Sprintf("franz-%s-%08x", prefix, rand.Uint32()) }

func client(opts ...kgo.Opt) *kgo.Client {
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(seed)}, opts...)...)
	must(err, "client")
	return c
}

func topic(partitions int32, configs map[string]*string) string {
	name := unique("t")
	_, err := adm.CreateTopic(ctx, partitions, 1, configs, name)
	must(err, "create topic")
	return name
}

// read polls until count records have come, each handed to f.
func read(c *kgo.Client, count int, f func(*kgo.Record)) {
	for n := 0; n < count; {
		fetches := c.PollFetches(ctx)
		if ctx.Err() != nil {
			fail("only %d of %d records", n, count)
		}
		fetches.EachError(func(t string, p int32, err error) { fail("fetch of %s/%d: %v", t, p, err) })
		fetches.EachRecord(func(r *kgo.Record) { n++; f(r) })
	}
}

func roundTrip() {
	codecs := map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(),
		"snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}
	for name, codec := range codecs {
		t := topic(4, nil)
		p := client(kgo.DefaultProduceTopic(t), kgo.ProducerBatchCompression(codec))
		now := time.Now().Truncate(time.Millisecond)
		var sent []*kgo.Record
		for i := range 2000 {
			r := &kgo.Record{Key: fmt.Appendf(nil, "k%d", i%20), Value: fmt.Appendf(nil, "%d %s", i, strings.Repeat("y", i%200)),
				Timestamp: now.Add(time.Duration(i) * time.Millisecond), Headers: []kgo.RecordHeader{{Key: "n", Value: fmt.Append(nil, i)}, {Key: "null"}}}
			if i%50 == 7 {
				r.Value = nil
			}
			sent = append(sent, r)
		}
		must(p.ProduceSync(ctx, sent...).FirstErr(), "produce "+name)
		p.Close()
		c := client(kgo.ConsumeTopics(t), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		last := map[string]int{}
		read(c, len(sent), func(r *kgo.Record) {
			var i int
			fmt.Sscan(string(r.Headers[0].Value), &i)
			if string(r.Value) != string(sent[i].Value) || (r.Value == nil) != (sent[i].Value == nil) || string(r.Key) != string(sent[i].Key) ||
				!r.Timestamp.Equal(sent[i].Timestamp) || r.Headers[1].Value != nil {
				fail("%s: record %d came back as %+v", name, i, r)
			}
			if before, ok := last[string(r.Key)]; ok && before >= i {
				fail("%s: key %s: %d after %d", name, r.Key, i, before)
			}
			last[string(r.Key)] = i
		})
		c.Close()
	}
	proved("idempotent producer (kgo's default), 2,000 keyed records with headers, null values and timestamps, order per key, five codecs")
}

type member struct {
	c     *kgo.Client
	mu    sync.Mutex
	owned map[int32]bool
	seen  map[string]int
	lost  int
}

func newMember(t, group string, opts ...kgo.Opt) *member {
	m := &member{owned: map[int32]bool{}, seen: map[string]int{}}
	m.c = client(append([]kgo.Opt{kgo.ConsumerGroup(group), kgo.ConsumeTopics(t), kgo.HeartbeatInterval(300 * time.Millisecond),
		kgo.SessionTimeout(time.Minute), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, a map[string][]int32) {
			m.mu.Lock()
			defer m.mu.Unlock()
			for _, p := range a[t] {
				m.owned[p] = true
			}
		}),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, a map[string][]int32) {
			m.mu.Lock()
			defer m.mu.Unlock()
			for _, p := range a[t] {
				delete(m.owned, p)
				m.lost++
			}
		})}, opts...)...)
	go func() {
		for {
			fetches := m.c.PollFetches(ctx)
			if fetches.IsClientClosed() || ctx.Err() != nil {
				return
			}
			m.mu.Lock()
			fetches.EachRecord(func(r *kgo.Record) { m.seen[string(r.Value)]++ })
			m.mu.Unlock()
		}
	}()
	return m
}

func (m *member) state() (owned, seen, lost int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.owned), len(m.seen), m.lost
}

func until(what string, f func() bool) {
	for end := time.Now().Add(2 * time.Minute); !f(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			fail("not in time: %s", what)
		}
	}
}

func groups() {
	for name, balancer := range map[string]kgo.GroupBalancer{"range": kgo.RangeBalancer(), "sticky": kgo.StickyBalancer(), "cooperative-sticky": kgo.CooperativeStickyBalancer()} {
		t, group := topic(6, nil), unique("g")
		a := newMember(t, group, kgo.Balancers(balancer))
		until(name+": one owns all", func() bool { o, _, _ := a.state(); return o == 6 })
		b := newMember(t, group, kgo.Balancers(balancer))
		until(name+": two share", func() bool { x, _, _ := a.state(); y, _, _ := b.state(); return x == 3 && y == 3 })
		_, _, lost := a.state()
		if want := map[string]int{"range": 6, "sticky": 6, "cooperative-sticky": 3}[name]; lost != want {
			fail("%s: %d partitions revoked, expected %d", name, lost, want)
		}
		p := client(kgo.DefaultProduceTopic(t), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
		for i := range 300 {
			p.Produce(ctx, kgo.StringRecord(fmt.Sprint(i)), func(_ *kgo.Record, err error) { must(err, "produce") })
		}
		must(p.Flush(ctx), "flush")
		p.Close()
		until(name+": all records", func() bool { _, x, _ := a.state(); _, y, _ := b.state(); return x+y == 300 })
		must(a.c.CommitUncommittedOffsets(ctx), "commit")
		must(b.c.CommitUncommittedOffsets(ctx), "commit")
		b.c.Close()
		until(name+": the rest comes back", func() bool { o, _, _ := a.state(); return o == 6 })
		a.c.Close()
		lag, err := adm.Lag(ctx, group)
		must(err, "lag")
		if l := lag[group]; l.Error() != nil || l.Lag.Total() != 0 {
			fail("%s: lag %d, %v", name, l.Lag.Total(), l.Error())
		}
		committed, err := adm.FetchOffsets(ctx, group)
		must(err, "fetch offsets")
		sum := int64(0)
		committed.Each(func(o kadm.OffsetResponse) { sum += o.At })
		if sum != 300 {
			fail("%s: committed %d in all", name, sum)
		}
		deleted, err := adm.DeleteGroup(ctx, group)
		must(err, "delete group")
		must(deleted.Err, "delete group")
	}
	proved("groups with range, sticky (eager) and cooperative-sticky: join, share, leave, revocations as the protocol says, commits, lag 0, delete")
}

func static() {
	t, group := topic(4, nil), unique("g")
	a := newMember(t, group, kgo.InstanceID("one"))
	b := newMember(t, group, kgo.InstanceID("two"))
	until("two share", func() bool { x, _, _ := a.state(); y, _, _ := b.state(); return x == 2 && y == 2 })
	_, _, before := a.state()
	b.c.Close()
	b = newMember(t, group, kgo.InstanceID("two"))
	until("the returning member owns again", func() bool { y, _, _ := b.state(); return y == 2 })
	if _, _, after := a.state(); after != before {
		fail("the other member lost %d partitions", after-before)
	}
	// It stops without a farewell, as static members do; one that still polled would come back after its removal.
	b.c.Close()
	left, err := adm.LeaveGroup(ctx, kadm.LeaveGroup(group).InstanceIDs("two").Reason("test"))
	must(err, "leave group")
	must(left.Error(), "leave group")
	until("the rest comes to the other", func() bool { o, _, _ := a.state(); return o == 4 })
	a.c.Close()
	proved("static members: return without a rebalance, removed by an administrator's LeaveGroup")
}

func offsets() {
	t := topic(1, nil)
	base := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
	p := client(kgo.DefaultProduceTopic(t), kgo.ProducerBatchCompression(kgo.ZstdCompression()), kgo.ProducerLinger(50*time.Millisecond))
	var sent []*kgo.Record
	for i := range 100 {
		sent = append(sent, &kgo.Record{Value: fmt.Append(nil, i), Timestamp: base.Add(time.Duration(i) * time.Second)})
	}
	must(p.ProduceSync(ctx, sent...).FirstErr(), "produce")
	p.Close()
	at, err := adm.ListOffsetsAfterMilli(ctx, base.Add(41500*time.Millisecond).UnixMilli(), t)
	must(err, "list offsets")
	if o, _ := at.Lookup(t, 0); o.Offset != 42 || o.Err != nil {
		fail("offset by time: %+v", o)
	}
	c := client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{t: {0: kgo.NewOffset().At(97)}}))
	read(c, 1, func(r *kgo.Record) {
		if r.Offset < 97 {
			fail("offset %d", r.Offset)
		}
	})
	c.Close()
	deleted, err := adm.DeleteRecords(ctx, func() kadm.Offsets { o := kadm.Offsets{}; o.AddOffset(t, 0, 30, -1); return o }())
	must(err, "delete records")
	must(deleted.Error(), "delete records")
	start, err := adm.ListStartOffsets(ctx, t)
	must(err, "start offsets")
	if o, _ := start.Lookup(t, 0); o.Offset != 30 {
		fail("start offset %+v", o)
	}
	epochs, err := adm.OffsetForLeaderEpoch(ctx, func() kadm.OffsetForLeaderEpochRequest {
		var r kadm.OffsetForLeaderEpochRequest
		r.Add(t, 0, 0)
		return r
	}())
	must(err, "offset for leader epoch")
	if e := epochs[t][0]; e.Err != nil || e.EndOffset != 100 {
		fail("offset for leader epoch: %+v", e)
	}
	proved("offsets by time, from a given offset, DeleteRecords, OffsetForLeaderEpoch")
}

func admin() {
	retention := "100000"
	t := topic(2, map[string]*string{"retention.ms": &retention})
	configs, err := adm.DescribeTopicConfigs(ctx, t)
	must(err, "describe configs")
	rc, err := configs.On(t, nil)
	must(err, "describe configs")
	found := false
	for _, c := range rc.Configs {
		if c.Key == "retention.ms" {
			found = c.MaybeValue() == retention && c.Source.String() == "DYNAMIC_TOPIC_CONFIG" && len(c.Synonyms) > 0
		}
	}
	if !found {
		fail("retention.ms not as set: %+v", rc.Configs)
	}
	altered, err := adm.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "segment.bytes", Value: kadm.StringPtr("20000000")}}, t)
	must(err, "alter configs")
	for _, a := range altered {
		must(a.Err, "alter configs")
	}
	grown, err := adm.UpdatePartitions(ctx, 4, t)
	must(err, "create partitions")
	must(grown.Error(), "create partitions")
	meta, err := adm.Metadata(ctx, t)
	must(err, "metadata")
	if d := meta.Topics[t]; len(d.Partitions) != 4 || d.ID == (kadm.TopicID{}) || meta.Cluster == "" || len(meta.Brokers) != 1 {
		fail("metadata: %+v", meta)
	}
	dirs, err := adm.DescribeAllLogDirs(ctx, kadm.TopicsSet{t: {0: {}, 1: {}}})
	must(err, "describe log dirs")
	dirs.Each(func(d kadm.DescribedLogDir) { must(d.Err, "describe log dirs") })
	if _, err = adm.DescribeACLs(ctx, kadm.NewACLs().AnyResource().Allow().AllowHosts().Deny().DenyHosts().Operations().ResourcePatternType(kadm.ACLPatternAny)); err == nil {
		results, _ := adm.DescribeACLs(ctx, kadm.NewACLs().AnyResource().Allow().AllowHosts().Deny().DenyHosts().Operations().ResourcePatternType(kadm.ACLPatternAny))
		for _, r := range results {
			if !errors.Is(r.Err, kerr.SecurityDisabled) {
				fail("describe ACLs: %v", r.Err)
			}
		}
	} else if !errors.Is(err, kerr.SecurityDisabled) {
		fail("describe ACLs: %v", err)
	}
	listed, err := adm.ListPartitionReassignments(ctx, kadm.TopicsSet{t: {0: {}}})
	must(err, "list reassignments")
	if len(listed) != 0 {
		fail("reassignments: %+v", listed)
	}
	elected, err := adm.ElectLeaders(ctx, kadm.ElectPreferredReplica, kadm.TopicsSet{t: {0: {}}})
	must(err, "elect leaders")
	if e := elected[t][0]; !errors.Is(e.Err, kerr.ElectionNotNeeded) {
		fail("elect leaders: %v", e.Err)
	}
	quotas, err := adm.DescribeClientQuotas(ctx, false, nil)
	must(err, "describe quotas")
	if len(quotas) != 0 {
		fail("quotas: %+v", quotas)
	}
	producers, err := adm.DescribeProducers(ctx, kadm.TopicsSet{t: {0: {}}})
	must(err, "describe producers")
	producers.Each(func(topic kadm.DescribedProducersTopic) {
		topic.Partitions.Each(func(p kadm.DescribedProducersPartition) { must(p.Err, "describe producers") })
	})
	versions, err := adm.ApiVersions(ctx)
	must(err, "api versions")
	versions.Each(func(v kadm.BrokerApiVersions) {
		var missing []string
		for _, key := range []int16{0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 19, 20, 21, 22, 23, 32, 33, 35, 37, 42, 43, 44, 45, 46, 47, 48, 50, 55, 57, 60, 61, 75} {
			if _, ok := v.KeyMaxVersion(key); !ok {
				missing = append(missing, fmt.Sprint(key))
			}
		}
		sort.Strings(missing)
		if len(missing) > 0 {
			fail("APIs not advertised: %s", strings.Join(missing, ", "))
		}
	})
	deleted, err := adm.DeleteTopics(ctx, t)
	must(err, "delete topic")
	must(deleted.Error(), "delete topic")
	proved("administration: configs with sources and synonyms, partitions, topic ids, log directories, leader election (ELECTION_NOT_NEEDED), reassignments, quotas, producers, ACLs disabled")
}

func main() {
	var cancel context.CancelFunc
	ctx, cancel = context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	adm = kadm.NewClient(client())
	map[string]func(){"roundtrip": roundTrip, "groups": groups, "static": static, "offsets": offsets, "admin": admin}[os.Args[2]]()
}
