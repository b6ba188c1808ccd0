// kafkajs against the broker at argv[2]; argv[3] names the check. Prints "proved: ..." for what it asserted.
'use strict'
const assert = require('node:assert')
const { Kafka, logLevel, CompressionTypes, CompressionCodecs, Partitioners } = require('kafkajs')
CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy')

const kafka = new Kafka({ brokers: [process.argv[2]], logLevel: logLevel.ERROR, clientId: 'weir-interop', connectionTimeout: 30000 })
const unique = prefix => `kafkajs-${prefix}-${Math.random().toString(36).slice(2, 10)}`
const admin = kafka.admin()
const proved = what => console.log(`proved: ${what}`)
const sleep = ms => new Promise(done => setTimeout(done, ms))

async function until (what, condition) {
  const end = Date.now() + 120000
  while (!await condition()) {
    if (Date.now() > end) throw new Error(`not in time: ${what}`)
    await sleep(30)
  }
}

async function topic (numPartitions, configEntries = []) {
  const name = unique('t')
  assert(await admin.createTopics({ topics: [{ topic: name, numPartitions, configEntries }], waitForLeaders: true }))
  return name
}

async function producer (options = {}) {
  const p = kafka.producer({ createPartitioner: Partitioners.DefaultPartitioner, ...options })
  await p.connect()
  return p
}

async function roundTrip () {
  const codecs = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP, snappy: CompressionTypes.Snappy }
  for (const [name, compression] of Object.entries(codecs)) {
    const t = await topic(3)
    const sent = Array.from({ length: 500 }, (_, i) => ({
      key: i % 9 ? `k${i % 20}` : null,
      value: i % 13 ? `${i} ${'v'.repeat(i % 100)}` : null,
      timestamp: String(1700000000000 + i),
      headers: { i: String(i), twice: ['a', 'b'] }
    }))
    const p = await producer({ idempotent: true, maxInFlightRequests: 1 })
    for (let i = 0; i < sent.length; i += 100) await p.send({ topic: t, acks: -1, compression, messages: sent.slice(i, i + 100) })
    await p.disconnect()
    const c = kafka.consumer({ groupId: unique('g'), maxWaitTimeInMs: 300 })
    await c.connect()
    await c.subscribe({ topics: [t], fromBeginning: true })
    const got = []
    await c.run({ eachMessage: async m => { got.push(m) } })
    await until(`${name}: 500 records`, () => got.length === sent.length)
    await c.disconnect()
    const last = {}
    for (const { message: m } of got) {
      const i = Number(m.headers.i)
      assert.equal(m.key === null ? null : m.key.toString(), sent[i].key)
      assert.equal(m.value === null ? null : m.value.toString(), sent[i].value)
      assert.equal(m.timestamp, sent[i].timestamp)
      assert.deepEqual(m.headers.twice.map(String), ['a', 'b'])
      if (m.key !== null) {
        assert(!(last[m.key] >= i), `key ${m.key}: ${i} after ${last[m.key]}`)
        last[m.key] = i
      }
    }
    assert.equal(new Set(got.map(({ message: m }) => String(m.headers.i))).size, 500)
  }
  proved('idempotent producer, 500 records on 3 partitions with null keys and values, headers, timestamps, order per key, with none, gzip, snappy')
}

async function groups () {
  const t = await topic(4)
  const groupId = unique('g')
  const member = async () => {
    const c = kafka.consumer({ groupId, maxWaitTimeInMs: 300, sessionTimeout: 60000, heartbeatInterval: 300, rebalanceTimeout: 60000 })
    const state = { c, owned: [], seen: [], joins: 0 }
    c.on(c.events.GROUP_JOIN, e => { state.owned = e.payload.memberAssignment[t] || []; state.joins++ })
    await c.connect()
    await c.subscribe({ topics: [t], fromBeginning: true })
    await c.run({ eachMessage: async ({ message }) => { state.seen.push(String(message.value)) } })
    return state
  }
  const a = await member()
  await until('one owns all', () => a.owned.length === 4)
  const b = await member()
  await until('two share', () => a.owned.length === 2 && b.owned.length === 2)
  const p = await producer()
  await p.send({ topic: t, messages: Array.from({ length: 400 }, (_, i) => ({ value: String(i), partition: i % 4 })) })
  await p.disconnect()
  await until('400 records', () => a.seen.length + b.seen.length === 400)
  assert.equal(new Set([...a.seen, ...b.seen]).size, 400)
  const { groups: [g] } = await admin.describeGroups([groupId])
  assert.equal(g.state, 'Stable')
  assert.equal(g.members.length, 2)
  await assert.rejects(admin.deleteGroups([groupId]))
  await b.c.disconnect()
  await until('the rest comes back', () => a.owned.length === 4)
  await a.c.disconnect()
  const [offsets] = await admin.fetchOffsets({ groupId, topics: [t] })
  assert.equal(offsets.partitions.reduce((sum, x) => sum + Number(x.offset), 0), 400)
  await admin.resetOffsets({ groupId, topic: t, earliest: true })
  await admin.setOffsets({ groupId, topic: t, partitions: [{ partition: 2, offset: '17' }] })
  const [again] = await admin.fetchOffsets({ groupId, topics: [t] })
  assert.equal(again.partitions.find(x => x.partition === 2).offset, '17')
  assert((await admin.listGroups()).groups.some(x => x.groupId === groupId))
  await admin.deleteGroups([groupId])
  proved('group: join, share, leave, 400 records once each, commits; describe, a live group is not deleted, set offsets, list, delete')
}

async function administration () {
  const t = await topic(2, [{ name: 'retention.ms', value: '88888' }])
  assert.equal(await admin.createTopics({ topics: [{ topic: t }] }), false)
  await admin.createPartitions({ topicPartitions: [{ topic: t, count: 3 }] })
  await until('3 partitions', async () => (await admin.fetchTopicMetadata({ topics: [t] })).topics[0].partitions.length === 3)
  const { resources: [r] } = await admin.describeConfigs({ resources: [{ type: 2, name: t, configNames: ['retention.ms'] }] })
  assert.equal(r.configEntries[0].configValue, '88888')
  await admin.alterConfigs({ resources: [{ type: 2, name: t, configEntries: [{ name: 'retention.ms', value: '99999' }] }] })
  const p = await producer()
  await p.send({ topic: t, compression: CompressionTypes.GZIP, messages: Array.from({ length: 50 }, (_, i) => ({ value: String(i), partition: 1, timestamp: String(1700000000000 + i * 1000) })) })
  await assert.rejects(p.send({ topic: t, messages: [{ value: Buffer.alloc(3 << 20, 'x') }] }), /MESSAGE_TOO_LARGE|larger than/)
  await p.send({ topic: t, messages: [{ value: 'after', partition: 1 }] })
  await p.disconnect()
  const by = await admin.fetchTopicOffsetsByTimestamp(t, 1700000000000 + 20500)
  assert.equal(by.find(x => x.partition === 1).offset, '21')
  await admin.deleteTopicRecords({ topic: t, partitions: [{ partition: 1, offset: '30' }] })
  const offsets = await admin.fetchTopicOffsets(t)
  const one = offsets.find(x => x.partition === 1)
  assert.deepEqual([one.low, one.high], ['30', '51'])
  const cluster = await admin.describeCluster()
  assert.equal(cluster.brokers.length, 1)
  await admin.deleteTopics({ topics: [t] })
  await until('the topic is gone', async () => !(await admin.listTopics()).includes(t))
  proved('topics, partitions, configs, offsets by time, MESSAGE_TOO_LARGE, DeleteRecords, cluster, delete')
}

async function main () {
  await admin.connect()
  await { roundtrip: roundTrip, groups, admin: administration }[process.argv[3]]()
  await admin.disconnect()
}

main().then(() => process.exit(0), e => {
  console.error(e)
  process.exit(1)
})
