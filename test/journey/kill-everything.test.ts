/** A 2xx is on disk, and accepted mail ends, whichever process is killed meanwhile. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { arrivals, assertSettled, duplicates, runLoad } from '../support/load.ts';
import { waitForArrivals, FROM, newScene, waitForEmptyQueue, to } from '../support/scene.ts';
import { waitFor } from '../support/wait.ts';

const EMAILS = 300;
/** So many that hundreds are on their way when everything dies. */
const MANY_EMAILS = 1_000;
/** For a service that has just lost a process to finish its load, on a busy machine. */
const WAIT_MAX_MS = 180_000;

const scene = await newScene({ database: 'own', args: ['--workers', '2'] });
after(() => scene[Symbol.asyncDispose]());
const { service, mx, key } = scene;

const loadOf = (count: number, onAccepted: (count: number) => void) =>
  runLoad(service, { key, count, from: FROM, to, onAccepted });

/** Second copies so far. */
const copies = () => duplicates(arrivals(mx));

async function allIsSettled(accepted: readonly string[]): Promise<void> {
  await waitForArrivals(mx, accepted, WAIT_MAX_MS);
  await waitForEmptyQueue(service, WAIT_MAX_MS);
  await assertSettled(service, accepted);
}

test('when all processes are killed under load, everything accepted is delivered after the restart, with few duplicates', async () => {
  const before = copies();
  let kill: Promise<void> | undefined;
  const load = await loadOf(MANY_EMAILS, (count) => {
    if (count >= MANY_EMAILS / 2) kill ??= service.killGroup9();
  });
  await kill;
  assert.ok(load.accepted.length >= MANY_EMAILS / 2 && load.broken > 0, 'it was killed under load');
  await service.restart();
  await allIsSettled(load.accepted);
  // Only what was between its dot and its settled reply may come twice.
  assert.ok(copies() - before <= 20 + MANY_EMAILS / 10, 'few duplicates');
});

test('a killed worker is replaced, and its mail is sent at once', async () => {
  const [victim] = await service.sql('select pid from nodes order by id limit 1');
  let killed = false;
  const load = await loadOf(EMAILS, (count) => {
    if (killed || count < EMAILS / 2) return;
    killed = true;
    process.kill(victim.pid as number, 'SIGKILL');
  });
  assert.ok(killed);
  await allIsSettled(load.accepted);
  const isReplaced = async (): Promise<boolean> => {
    const nodes = await service.sql('select pid from nodes');
    return nodes.length === 2 && !nodes.some(({ pid }) => pid === victim.pid);
  };
  await waitFor(isReplaced, { what: 'another worker in its place' });
});

test('a stop under load loses and repeats no email', async () => {
  const before = copies();
  let stopping: Promise<number | NodeJS.Signals> | undefined;
  const load = await loadOf(EMAILS, (count) => {
    if (count >= EMAILS / 2) stopping ??= service.stop('SIGINT');
  });
  assert.equal(await stopping, 0);
  await service.restart();
  await waitForArrivals(mx, load.accepted, WAIT_MAX_MS);
  assert.equal(copies() - before, 0);
});
