// sarama, pinned to the protocol level os.Args[2], against the broker at os.Args[1].
package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

var (
	seed  = []string{os.Args[1]}
	level sarama.KafkaVersion
	adm   sarama.ClusterAdmin
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

func unique(prefix string) string { return fmt.Sprintf("sarama-%s-%08x", prefix, rand.Uint32()) }

func config() *sarama.Config {
	c := sarama.NewConfig()
	c.Version = level
	c.Producer.Return.Successes = true
	c.Consumer.Offsets.Initial = sarama.OffsetOldest
	c.Consumer.Group.Heartbeat.Interval = 300 * time.Millisecond
	c.Consumer.Group.Session.Timeout = time.Minute
	return c
}

func topic(partitions int32) string {
	name := unique("t")
	must(adm.CreateTopic(name, &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: 1}, false), "create topic")
	return name
}

func roundTrip() {
	codecs := []sarama.CompressionCodec{sarama.CompressionNone, sarama.CompressionGZIP, sarama.CompressionSnappy, sarama.CompressionLZ4, sarama.CompressionZSTD}
	for _, codec := range codecs {
		t := topic(1)
		c := config()
		c.Producer.Compression = codec
		c.Producer.RequiredAcks = sarama.WaitForAll
		c.Producer.Idempotent = true
		c.Net.MaxOpenRequests = 1
		p, err := sarama.NewSyncProducer(seed, c)
		must(err, "producer")
		now := time.Now().Truncate(time.Millisecond)
		var sent []*sarama.ProducerMessage
		for i := range 500 {
			m := &sarama.ProducerMessage{Topic: t, Key: sarama.StringEncoder(fmt.Sprintf("k%d", i%7)), Value: sarama.StringEncoder(fmt.Sprintf("%d %s", i, strings.Repeat("z", i%100))),
				Timestamp: now.Add(time.Duration(i) * time.Millisecond), Headers: []sarama.RecordHeader{{Key: []byte("h"), Value: fmt.Append(nil, i)}}}
			if i%50 == 3 {
				m.Value = nil
			}
			sent = append(sent, m)
		}
		must(p.SendMessages(sent), "send with "+codec.String())
		must(p.Close(), "close")
		consumer, err := sarama.NewConsumer(seed, config())
		must(err, "consumer")
		pc, err := consumer.ConsumePartition(t, 0, sarama.OffsetOldest)
		must(err, "consume")
		for i := range 500 {
			select {
			case m := <-pc.Messages():
				key, _ := sent[i].Key.Encode()
				var value []byte
				if sent[i].Value != nil {
					value, _ = sent[i].Value.Encode()
				}
				if string(m.Key) != string(key) || string(m.Value) != string(value) || (m.Value == nil) != (sent[i].Value == nil) ||
					m.Offset != int64(i) || !m.Timestamp.Equal(sent[i].Timestamp) || string(m.Headers[0].Value) != fmt.Sprint(i) {
					fail("%s: record %d came back as %+v", codec, i, m)
				}
			case err := <-pc.Errors():
				fail("consume: %v", err)
			case <-time.After(15 * time.Second):
				fail("%s: only %d of 500 records", codec, i)
			}
		}
		pc.Close()
		must(consumer.Close(), "close")
	}
	proved("protocol level %s: idempotent producer, acks=all, 500 records with keys, headers, timestamps and null values in order, five codecs", level)
}

type handler struct {
	mu      sync.Mutex
	owned   int
	seen    map[string]int
	session int
}

func (h *handler) Setup(s sarama.ConsumerGroupSession) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.owned = 0
	for _, p := range s.Claims() {
		h.owned += len(p)
	}
	h.session++
	return nil
}

func (h *handler) Cleanup(sarama.ConsumerGroupSession) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.owned = 0
	return nil
}

func (h *handler) ConsumeClaim(s sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for m := range claim.Messages() {
		h.mu.Lock()
		h.seen[string(m.Value)]++
		h.mu.Unlock()
		s.MarkMessage(m, "")
	}
	return nil
}

func (h *handler) state() (int, int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.owned, len(h.seen)
}

type member struct {
	handler
	group sarama.ConsumerGroup
	stop  context.CancelFunc
	done  chan struct{}
}

func join(t, group string, strategy sarama.BalanceStrategy) *member {
	c := config()
	c.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{strategy}
	g, err := sarama.NewConsumerGroup(seed, group, c)
	must(err, "group")
	ctx, cancel := context.WithCancel(context.Background())
	m := &member{handler: handler{seen: map[string]int{}}, group: g, stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(m.done)
		for ctx.Err() == nil {
			if err := g.Consume(ctx, []string{t}, m); err != nil && ctx.Err() == nil && !errors.Is(err, sarama.ErrClosedConsumerGroup) {
				fail("consume in a group: %v", err)
			}
		}
	}()
	return m
}

func (m *member) leave() {
	m.stop()
	<-m.done
	must(m.group.Close(), "leave")
}

func until(what string, f func() bool) {
	for end := time.Now().Add(2 * time.Minute); !f(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			fail("not in time: %s", what)
		}
	}
}

func groups() {
	for _, strategy := range []sarama.BalanceStrategy{sarama.NewBalanceStrategyRange(), sarama.NewBalanceStrategySticky()} {
		t, group := topic(6), unique("g")
		a := join(t, group, strategy)
		until("one owns all", func() bool { o, _ := a.state(); return o == 6 })
		b := join(t, group, strategy)
		until("two share", func() bool { x, _ := a.state(); y, _ := b.state(); return x == 3 && y == 3 })
		c := config()
		c.Producer.Partitioner = sarama.NewRoundRobinPartitioner
		p, err := sarama.NewSyncProducer(seed, c)
		must(err, "producer")
		for i := range 120 {
			_, _, err := p.SendMessage(&sarama.ProducerMessage{Topic: t, Value: sarama.StringEncoder(fmt.Sprint(i))})
			must(err, "send")
		}
		must(p.Close(), "close")
		until("all records", func() bool { _, x := a.state(); _, y := b.state(); return x+y == 120 })
		b.leave()
		until("the rest comes back", func() bool { o, _ := a.state(); return o == 6 })
		described, err := adm.DescribeConsumerGroups([]string{group})
		must(err, "describe group")
		if described[0].State != "Stable" || len(described[0].Members) != 1 {
			fail("group: %+v", described[0])
		}
		a.leave()
		offsets, err := adm.ListConsumerGroupOffsets(group, nil)
		must(err, "group offsets")
		sum := int64(0)
		for _, block := range offsets.Blocks[t] {
			sum += block.Offset
		}
		if sum != 120 {
			fail("committed %d in all: %+v", sum, offsets.Blocks)
		}
		listed, err := adm.ListConsumerGroups()
		must(err, "list groups")
		if _, ok := listed[group]; !ok {
			fail("group not listed")
		}
		must(adm.DeleteConsumerGroup(group), "delete group")
	}
	proved("protocol level %s: groups with range and sticky: join, share, leave, 120 records once each, all committed, list, describe, delete", level)
}

func admin() {
	t := topic(2)
	value := "54321"
	if level.IsAtLeast(sarama.V2_3_0_0) {
		must(adm.IncrementalAlterConfig(sarama.TopicResource, t, map[string]sarama.IncrementalAlterConfigsEntry{"retention.ms": {Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &value}}, false), "incremental alter configs")
	} else {
		must(adm.AlterConfig(sarama.TopicResource, t, map[string]*string{"retention.ms": &value}, false), "alter configs")
	}
	until("the altered config", func() bool {
		entries, err := adm.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: t, ConfigNames: []string{"retention.ms"}})
		must(err, "describe configs")
		return len(entries) == 1 && entries[0].Value == value
	})
	must(adm.AlterConfig(sarama.TopicResource, t, map[string]*string{"retention.bytes": &value}, false), "alter configs")
	until("retention.ms gone, retention.bytes there", func() bool {
		entries, err := adm.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: t})
		must(err, "describe configs")
		got := map[string]string{}
		for _, e := range entries {
			got[e.Name] = e.Value
		}
		return got["retention.ms"] == "604800000" && got["retention.bytes"] == value
	})
	must(adm.CreatePartitions(t, 4, nil, false), "create partitions")
	p, err := sarama.NewSyncProducer(seed, config())
	must(err, "producer")
	for i := range 40 {
		_, _, err := p.SendMessage(&sarama.ProducerMessage{Topic: t, Key: sarama.StringEncoder("k"), Value: sarama.StringEncoder(fmt.Sprint(i)), Timestamp: time.UnixMilli(1_700_000_000_000 + int64(i)*1000)})
		must(err, "send")
	}
	must(p.Close(), "close")
	client, err := sarama.NewClient(seed, config())
	must(err, "client")
	var partition int32 = -1
	for q := range int32(4) {
		end, err := client.GetOffset(t, q, sarama.OffsetNewest)
		must(err, "newest offset")
		if end == 40 {
			partition = q
		}
	}
	if partition < 0 {
		fail("no partition has the 40 records of one key")
	}
	at, err := client.GetOffset(t, partition, 1_700_000_000_000+11_500)
	must(err, "offset by time")
	if at != 12 {
		fail("offset by time: %d", at)
	}
	must(adm.DeleteRecords(t, map[int32]int64{partition: 25}), "delete records")
	if first, err := client.GetOffset(t, partition, sarama.OffsetOldest); err != nil || first != 25 {
		fail("oldest offset %d, %v", first, err)
	}
	must(client.Close(), "close")
	brokers, _, err := adm.DescribeCluster()
	must(err, "describe cluster")
	dirs, err := adm.DescribeLogDirs([]int32{brokers[0].ID()})
	must(err, "describe log dirs")
	if len(brokers) != 1 || len(dirs) != 1 {
		fail("cluster: %v, log dirs %v", brokers, dirs)
	}
	if err := adm.CreateTopic(t, &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1}, false); !errors.Is(err, sarama.ErrTopicAlreadyExists) {
		fail("same topic again: %v", err)
	}
	must(adm.DeleteTopic(t), "delete topic")
	proved("protocol level %s: topics, configs, partitions, offsets by time, DeleteRecords, log directories", level)
}

func main() {
	var err error
	level, err = sarama.ParseKafkaVersion(os.Args[2])
	must(err, "level")
	adm, err = sarama.NewClusterAdmin(seed, config())
	must(err, "admin")
	for _, what := range os.Args[3:] {
		map[string]func(){"roundtrip": roundTrip, "groups": groups, "admin": admin}[what]()
	}
}
