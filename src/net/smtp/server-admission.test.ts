import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Admission, KnownClients, type Visit } from './server-admission.ts';
import { SMTP_SERVER_LIMITS, type SmtpServerLimits } from './server-types.ts';

/** A door with a clock of its own; `enter` gives what becomes of a connection. */
function startDoor(limits: Partial<SmtpServerLimits>) {
  const clock = { nowMs: 1_000 };
  const world = { monotonicMs: () => clock.nowMs };
  const known = new KnownClients(world);
  const admission = new Admission(
    { ...SMTP_SERVER_LIMITS, newPerClientAndMinute: Infinity, ...limits },
    { world, known },
  );
  const enter = (client: string) => {
    const seen: { visit: Visit | null; heard: string | null } = { visit: null, heard: null };
    const visit = admission.enter(client, ({ text }) => (seen.heard = text));
    if ('refused' in visit) seen.heard = visit.refused.text;
    else seen.visit = visit;
    return seen;
  };
  return { clock, known, enter };
}

test('a newcomer takes the place of who has waited longest without a log-in', () => {
  const { enter } = startDoor({ connections: 4, anonymousConnections: 2 });
  const [first, second] = [enter('a'), enter('b')];
  second.visit?.progressed();
  first.visit?.progressed();
  const third = enter('c');
  assert.deepEqual(
    [first.heard, second.heard, third.heard],
    [null, 'Others need this connection; try again later', null],
  );
  first.visit?.loggedIn();
  const others = ['d', 'e', 'f'].map(enter);
  assert.deepEqual(
    [first.heard, others.map(({ heard }) => heard === null)],
    [null, [false, true, true]],
  );
});

test('anonymous connections leave a part to clients that logged in within a day', () => {
  const { enter, known, clock } = startDoor({ connections: 4, anonymousConnections: 2 });
  known.note('app');
  for (let count = 0; count < 100; count += 1) enter(`stranger ${count}`);
  const own = [enter('app'), enter('app')];
  for (let count = 0; count < 100; count += 1) enter(`other ${count}`);
  assert.deepEqual(
    own.map(({ heard }) => heard),
    [null, null],
  );
  clock.nowMs += 24 * 3600_000;
  assert.equal(known.has('app'), false);
});

test('when all are logged in nobody is shut out, and the next one hears why it is refused', () => {
  const { enter } = startDoor({ connections: 2, anonymousConnections: 2 });
  const open = [enter('a'), enter('b')];
  for (const { visit } of open) visit?.loggedIn();
  assert.equal(enter('c').heard, 'All connections are in use; try again later');
  open[0]?.visit?.leave();
  open[0]?.visit?.leave();
  assert.equal(enter('c').heard, null);
});

test('a client has few connections that are not logged in, and more when it is known', () => {
  const { enter } = startDoor({ anonymousPerClient: 2, connectionsPerClient: 12 });
  const [first, second] = [enter('a'), enter('a')];
  assert.match(enter('a').heard ?? '', /^Too many connections from your address/);
  assert.equal(enter('b').heard, null);
  first.visit?.loggedIn();
  // Known now: five times as many, and all together no more than any client.
  const more = Array.from({ length: 11 }, () => enter('a'));
  assert.deepEqual(
    more.map(({ heard }) => heard === null),
    [...Array.from({ length: 9 }, () => true), false, false],
  );
  for (const { visit } of [second, ...more]) visit?.loggedIn();
  assert.equal(enter('a').heard, null);
  assert.match(enter('a').heard ?? '', /^Too many connections from your address/);
});

test('only connections that do not log in count against how often one may be opened', () => {
  const { enter, clock } = startDoor({ newPerClientAndMinute: 3 });
  const visits = ['a', 'a', 'a'].map(enter);
  for (const { visit } of visits) visit?.leave();
  assert.match(enter('a').heard ?? '', /^Too many new connections from your address/);
  assert.equal(enter('b').heard, null);
  clock.nowMs += 60_000;
  for (let count = 0; count < 10; count += 1) {
    const { visit } = enter('a');
    visit?.loggedIn();
    visit?.leave();
  }
  assert.equal(enter('a').heard, null);
});

test('other workers are told of a log-in, at most every ten minutes', () => {
  let nowMs = 0;
  const told: string[] = [];
  const known = new KnownClients({ monotonicMs: () => nowMs }, (client) => told.push(client));
  for (nowMs = 0; nowMs < 1_200_000; nowMs += 60_000) known.loggedIn('a');
  assert.deepEqual(told, ['a', 'a']);
  for (let count = 0; count < 20_001; count += 1) known.note(`client ${count}`);
  assert.equal(known.has('a'), false);
});
