/** Shows how dead DNS servers of our own are distinguished from broken domains of recipients. */
import assert from 'node:assert/strict';
import { hostname } from 'node:os';
import { mock, type TestContext, test } from 'node:test';
import type { DnsResult } from '../../net/dns/resolver.ts';
import { ResolverWatch } from './resolver-watch.ts';

const ERROR: DnsResult<string> = { kind: 'error', message: 'the A look-up of x failed (timeout)' };
const host = hostname();

function resolverWatch(t: TestContext) {
  mock.timers.enable({ apis: ['setTimeout'] });
  t.after(() => mock.timers.reset());
  const reports: string[] = [];
  let remedy = '';
  const asked: PromiseWithResolvers<DnsResult<string>>[] = [];
  const watch = new ResolverWatch({
    resolver: {
      a: () => {
        const question = Promise.withResolvers<DnsResult<string>>();
        asked.push(question);
        return question.promise;
      },
    },
    operatorEvents: {
      raise: (condition) => {
        reports.push(`raised ${condition.type} ${condition.subject}`);
        ({ remedy } = condition);
      },
      clear: ({ type, subject }) => void reports.push(`cleared ${type} ${subject}`),
    },
    host,
    servers: ['192.0.2.53:53'],
  });
  return {
    watch,
    reports,
    remedy: () => remedy,
    probes: () => asked.length,
    /** Answers the running probe, which the resolver reports, too. */
    answer: async (answer: DnsResult<string>) => {
      watch.lookedUp(answer.kind);
      asked.at(-1)?.resolve(answer);
      await new Promise(setImmediate);
    },
    tick: (ms: number) => mock.timers.tick(ms),
  };
}

test('silent DNS servers raise a condition with their addresses, until one answers', async (t) => {
  const { watch, reports, remedy, probes, answer, tick } = resolverWatch(t);
  for (let count = 0; count < 3; count += 1) watch.lookedUp('error');
  assert.equal(probes(), 1);
  await answer(ERROR);
  assert.deepEqual(reports, [`raised dns.unavailable ${host}`]);
  assert.match(remedy(), /192\.0\.2\.53:53 .*LETTERHAUS_DNS_SERVERS/);
  for (let count = 0; count < 100; count += 1) watch.lookedUp('error');
  assert.equal(probes(), 1, 'failing mail causes no more questions');
  tick(10_000);
  await answer(ERROR);
  assert.equal(probes(), 2);
  watch.lookedUp('records');
  assert.deepEqual(reports.slice(2), [`cleared dns.unavailable ${host}`]);
  tick(10_000);
  await answer({ kind: 'nxdomain' });
  tick(60_000);
  assert.deepEqual([probes(), reports.length], [3, 3], 'it ends with the last question');
});

test('a sender whose recipients have broken domains does not make the DNS servers look dead', async (t) => {
  const { watch, reports, probes, answer } = resolverWatch(t);
  for (let count = 0; count < 50; count += 1) watch.lookedUp('error');
  assert.equal(probes(), 1);
  await answer({ kind: 'nxdomain' });
  assert.deepEqual(reports, []);
  watch.lookedUp('error');
  watch.lookedUp('error');
  watch.lookedUp('records');
  watch.lookedUp('error');
  assert.equal(probes(), 1, 'an answer between them starts the count again');
});
