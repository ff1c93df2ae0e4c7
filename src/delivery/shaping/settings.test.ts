/**
 * The limits of providers, the operator's file that changes them, and the problems that it may have. docs/shaping.md is
 * compared with the code.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { parseShaping } from './settings-file.ts';
import {
  DEFAULT_PROVIDER_LIMITS,
  explainLimits,
  limitsOf,
  PROVIDER_LIMITS,
  type ProviderLimits,
  type ShapingSettings,
  findSlowdown,
  DEFAULT_SHAPING,
} from './settings.ts';

function settings(file: object): ShapingSettings {
  const parsed = parseShaping(JSON.stringify(file));
  assert.ok(!('problems' in parsed), JSON.stringify(parsed));
  return parsed;
}

function problems(text: string): string[] {
  const parsed = parseShaping(text);
  return 'problems' in parsed ? parsed.problems : [];
}

test('an empty file changes nothing', () => {
  assert.deepEqual(settings({}), DEFAULT_SHAPING);
  assert.deepEqual(limitsOf(DEFAULT_SHAPING, 'small.example'), DEFAULT_PROVIDER_LIMITS);
});

test('docs/shaping.md lists the limits of every provider with an entry', () => {
  const guide = readFileSync(new URL('../../../docs/shaping.md', import.meta.url), 'utf8');
  const rows = guide.matchAll(/^\| (all others|`.*`) +\| (\d+) +\| (\d+) +\| (\d*) +\|$/gm);
  const listed = [...rows].flatMap(([, names = '', ...limits]) =>
    names.split(', ').map((name) => [name.replaceAll('`', ''), ...limits]),
  );
  const shown = (limits: ProviderLimits) =>
    [limits.connections, limits.messagesPerConnection, limits.newConnectionsPerMinute ?? ''].map(
      String,
    );
  assert.deepEqual(listed, [
    ['all others', ...shown(DEFAULT_PROVIDER_LIMITS)],
    ...Object.keys(PROVIDER_LIMITS).map((name) => [
      name,
      ...shown(limitsOf(DEFAULT_SHAPING, name)),
    ]),
  ]);
});

test('the file replaces single values, for one provider or for all without an entry', () => {
  const own = settings({
    default: { connections: 4, idle_s: 2.5 },
    providers: { google: { connections: 9 }, relay: { messages_per_minute: 30 } },
  });
  assert.equal(limitsOf(own, 'small.example').connections, 4);
  assert.equal(limitsOf(own, 'small.example').idleMs, 2_500);
  assert.equal(limitsOf(own, 'google').connections, 9);
  assert.equal(limitsOf(own, 'google').messagesPerConnection, 50);
  assert.equal(limitsOf(own, 'relay smarthost.example').messagesPerMinute, 30);
});

test('for a domain with servers of several operators, the strictest limits apply', () => {
  const { connections, messagesPerConnection } = limitsOf(DEFAULT_SHAPING, 'apple+google');
  assert.deepEqual([connections, messagesPerConnection], [5, 5]);
});

test('a provider of the file has the hosts given in the file', () => {
  const own = settings({ providers: { acme: { suffixes: ['mx.acme.example', 'acme.net'] } } });
  assert.deepEqual(own.suffixes, [
    ['mx.acme.example', 'acme'],
    ['acme.net', 'acme'],
  ]);
});

test('the times of suspensions, recovery and the uplink can be set', () => {
  const own = settings({
    suspension: { after_failures: 5, first_s: 30 },
    recovery: { hold_down_s: 1 },
    uplink: { retry_s: 20 },
  });
  assert.deepEqual(own.suspension, { afterFailures: 5, firstMs: 30_000, longestMs: 900_000 });
  assert.equal(own.recovery.holdDownMs, 1_000);
  assert.deepEqual(own.uplink, { noAnswerMs: 15_000, retryMs: 20_000 });
});

test('every problem of an invalid file is reported with its place', () => {
  const found = problems(
    JSON.stringify({
      default: { connections: 0 },
      providers: { google: { conections: 3 }, acme: { suffixes: ['MX.acme.example'] } },
      speed: 'fast',
    }),
  );
  assert.equal(found.length, 4);
  for (const place of ['default.connections', 'providers.google', 'providers.acme.suffixes.0']) {
    assert.ok(
      found.some((problem) => problem.startsWith(place)),
      `${place} in ${found.join('\n')}`,
    );
  }
  assert.match(problems('{"default":').join(), /not JSON/);
});

test('an explained limit names where it is set', () => {
  const own = settings({
    default: { connections: 3, messages_per_minute: 60 },
    providers: { yahoo: { connections: 7 }, 'a.example': { messages_per_minute: null } },
  });
  for (const shaping of [DEFAULT_SHAPING, own]) {
    for (const provider of ['google', 'yahoo', 'b.example', 'a.example+google', 'relay x:25']) {
      const limits = Object.entries(explainLimits(shaping, provider)).map(([name, { value }]) => [
        name,
        value,
      ]);
      assert.deepEqual(Object.fromEntries(limits), limitsOf(shaping, provider), provider);
    }
  }
  const sourceOf = (provider: string) => {
    const { source, key } = explainLimits(own, provider).connections;
    return [source, key];
  };
  assert.deepEqual(sourceOf('yahoo'), ['file_provider', 'yahoo']);
  assert.deepEqual(sourceOf('google'), ['built_in_provider', 'google']);
  assert.deepEqual(sourceOf('b.example'), ['file', null]);
  assert.deepEqual(sourceOf('a.example+google'), ['file', null]);
  assert.equal(explainLimits(own, 'b.example').idleMs.source, 'built_in');
});

test('replies about the reputation of our address slow all mail; replies about one message do not', () => {
  const of = (provider: string, message: string) =>
    findSlowdown(provider, message)?.messagesPerMinute;
  const outlook =
    'The mail server [192.0.2.1] has been temporarily rate limited due to IP reputation. (S775)';
  assert.equal(of('office365', outlook), 1);
  assert.equal(of('yahoo', '[TSS04] Messages from 192.0.2.1 temporarily deferred'), 1);
  assert.equal(
    of('small.example', '[TSS04] Messages from 192.0.2.1 temporarily deferred'),
    undefined,
  );
  assert.equal(of('small.example', 'Too many connections from your host'), undefined);
});
