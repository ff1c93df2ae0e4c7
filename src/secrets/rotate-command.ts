/**
 * `letterhaus secrets rotate`: replaces the secret key while the service runs, in repeatable steps:
 * 1. Every node reads the new key, before anything is sealed with it.
 * 2. All secrets are sealed with the new key.
 * 3. The old key still verifies return paths and links until `--finish`.
 *
 * The order of the keys and the database record the progress, so a second call continues an interrupted rotation.
 */
import { commitAsHeartbeat } from '../delivery/queue/worker-store.ts';
import { randomBytes } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { type Command, InvalidArgumentError } from 'commander';
import { prepareDataDir } from '../database/embedded/layout.ts';
import { readRunning } from '../database/embedded/lock.ts';
import { resealCheck, readOrCreateSecretKey } from './key-check-store.ts';
import { parseSecretKeys, secretKeyId } from './secret-keys.ts';
import { SecretBox } from './secret-box.ts';
import { findOrCreateInstanceId, replaceSecretKeyFile } from './secret-key-file.ts';
import { listFirstKeys, listNodeKeys, recordFirstKey, resealAll } from './secret-store.ts';
import {
  addCommand,
  type Cli,
  conflictFailure,
  type Failure,
  isFailure,
  type CommandResult,
  type Success,
} from '../cli/command.ts';
import { type Store, withExistingStore } from '../cli/store.ts';
import { describeStartOver } from './start-over-command.ts';
import { DAY_MS } from '../lib/units.ts';

/**
 * Days until the old key may go: bounces are accepted for 45 days after delivery, and mail can wait in the queue for 5.
 */
const RETURN_PATHS_DAYS = 50;
const KEY_BYTES = 32;
const CHECK_NODES_EVERY_MS = 500;
/** A worker without a heartbeat for this time is dead (delivery/queue/worker-store.ts). */
const SILENT_FOR_MS = 20_000;

export function describeSecrets(secrets: Command, cli: Cli): void {
  addCommand(secrets, cli, {
    name: 'rotate',
    about: 'replace the secret key, while the service runs',
    examples: ['secrets rotate', 'secrets rotate --finish'],
    run: rotate,
  })
    .option('--finish', 'remove the old key once it is no longer needed')
    .option('--force', 'with --finish: remove it now, because it was disclosed')
    .option(
      '--wait <seconds>',
      'seconds to wait until all nodes have read the keys',
      parseSeconds,
      60,
    );
  describeStartOver(secrets, cli);
}

type Options = { finish?: true; force?: true; wait: number };

type Rotation = {
  cli: Cli;
  store: Store;
  dataDir: string;
  keys: readonly string[];
  waitMs: number;
  /** True: the key is in the data directory. False: it is LETTERHAUS_SECRET_KEY, which this command cannot change. */
  isFromFile: boolean;
};

function rotate(cli: Cli, options: Options): Promise<CommandResult> {
  return withExistingStore(cli, async (store) => {
    const dataDir = prepareDataDir(store.config.dataDir);
    const configured = store.config.secretKey;
    const keys = parseSecretKeys(await readOrCreateSecretKey(store.db, { dataDir, configured }));
    const waitMs = options.wait * 1_000;
    const rotation = { cli, store, dataDir, keys, waitMs, isFromFile: configured === null };
    return options.finish === true ? finish(rotation, options) : begin(rotation);
  });
}

async function begin(rotation: Rotation): Promise<CommandResult> {
  const { store, keys, isFromFile } = rotation;
  const [first = ''] = keys;
  await recordFirstKey(store.db, secretKeyId(first));
  if (keys.length === 1) {
    const newKey = randomBytes(KEY_BYTES).toString('base64url');
    if (!isFromFile) return step('add', ADD_KEY(newKey), { new_key: newKey });
    return begin(writeKeys(rotation, [first, newKey]));
  }
  const firstKeys = await listFirstKeys(store.db);
  const newKey = keys.find((key) => !firstKeys.has(secretKeyId(key)));
  if (newKey === undefined) return seal(rotation);
  const unready = await waitUntilNoNode(
    rotation,
    ({ keys: knownKeys }) => !knownKeys.includes(secretKeyId(newKey)),
  );
  if (unready !== null) return unready;
  if (!isFromFile) return step('switch', SWITCH_KEY);
  return seal(writeKeys(rotation, [newKey, ...keys.filter((key) => key !== newKey)]));
}

async function seal(rotation: Rotation): Promise<CommandResult> {
  const { store, keys } = rotation;
  const result = await sealAll(rotation);
  if (isFailure(result)) return result;
  const { sealed } = result;
  const since = (await listFirstKeys(store.db)).get(secretKeyId(keys[0]!)) ?? new Date();
  const finishAt = new Date(since.getTime() + RETURN_PATHS_DAYS * DAY_MS);
  const day = finishAt.toISOString().slice(0, 10);
  const text =
    `All secrets are sealed with the new key (${sealed} in this call). Bounces and unsubscribe links of ` +
    `mail sent before still work, with the old key.\n` +
    `From ${day} on, when bounces of that mail are no longer accepted:  ${rotation.cli.program} secrets rotate --finish`;
  return step('sealed', text, { sealed, finish_from: finishAt.toISOString() });
}

async function finish(
  rotation: Rotation,
  { force = false }: { force?: boolean },
): Promise<CommandResult> {
  const { store, keys, isFromFile } = rotation;
  const [first = '', ...old] = keys;
  if (old.length === 0)
    return conflictFailure('There is only one secret key, so there is nothing to finish.');
  const firstKeys = await listFirstKeys(store.db);
  const since = firstKeys.get(secretKeyId(first));
  if (since === undefined || keys.some((key) => !firstKeys.has(secretKeyId(key)))) {
    return conflictFailure(
      `The rotation is not complete. Run ${rotation.cli.program} secrets rotate.`,
    );
  }
  const finishAt = new Date(since.getTime() + RETURN_PATHS_DAYS * DAY_MS);
  if (!force && finishAt.getTime() > rotation.cli.world.now()) {
    return conflictFailure(
      `Bounces of mail sent with the old key are accepted until ${finishAt.toISOString().slice(0, 10)}. Finish then. ` +
        'If the old key was disclosed, add --force, which also invalidates its unsubscribe links.',
    );
  }
  const result = await sealAll(rotation);
  if (isFailure(result)) return result;
  if (!isFromFile) return step('remove', REMOVE_KEY);
  writeKeys(rotation, [first]);
  return step('finished', 'The old key is removed: signatures made with it are no longer valid.');
}

/** `sealed` in the result is the number of secrets that were sealed with the new key. */
async function sealAll(rotation: Rotation): Promise<{ sealed: number } | Failure> {
  const { store, keys } = rotation;
  const [first = ''] = keys;
  const unready = await waitUntilNoNode(
    rotation,
    ({ keys: knownKeys }) => knownKeys[0] !== secretKeyId(first),
  );
  if (unready !== null) return unready;
  await recordFirstKey(store.db, secretKeyId(first));
  const secrets = new SecretBox(keys.join(','));
  await resealCheck(store.db, secrets);
  const { sealed, unreadable } = await resealAll(store.db, secrets);
  if (unreadable === 0) return { sealed };
  return conflictFailure(
    `${unreadable} secrets are sealed with a key that is not configured. Add it after the others, as new,old,older. ` +
      `${sealed} were sealed with the new key.`,
  );
}

function writeKeys(rotation: Rotation, keys: readonly string[]): Rotation {
  replaceSecretKeyFile(rotation.dataDir, keys);
  return { ...rotation, keys };
}

type Node = { host: string; keys: readonly string[] };

/** Waits until no live node matches. Nodes without a heartbeat are ignored. */
async function waitUntilNoNode(
  { cli: { world }, store: { db }, dataDir, isFromFile, waitMs }: Rotation,
  isUnready: (node: Node) => boolean,
): Promise<Failure | null> {
  // Rows of a killed service do not count as nodes.
  const deadInstance =
    readRunning(dataDir)?.kind === 'service' ? null : findOrCreateInstanceId(dataDir);
  const seen = new Map<string, { heartbeats: number; atMs: number }>();
  const fromMs = world.monotonicMs();
  let stalledMs = 0;
  for (;;) {
    // Silence is evidence only while heartbeats can be stored, so the time of this commit does not count.
    const beforeMs = world.monotonicMs();
    await commitAsHeartbeat(db);
    stalledMs += world.monotonicMs() - beforeMs;
    const nodes = (await listNodeKeys(db)).filter(({ instance }) => instance !== deadInstance);
    const nowMs = world.monotonicMs() - stalledMs;
    const unready = nodes.filter(({ instance, heartbeats, host, keys }) => {
      const before = seen.get(instance);
      if (before?.heartbeats !== heartbeats) seen.set(instance, { heartbeats, atMs: nowMs });
      const silentMs = nowMs - (seen.get(instance)?.atMs ?? nowMs);
      return silentMs < SILENT_FOR_MS && isUnready({ host, keys: keys ?? [] });
    });
    if (unready.length === 0) return null;
    if (nowMs - fromMs > waitMs) return conflictFailure(unreadyMessage(unready, isFromFile));
    await pause(CHECK_NODES_EVERY_MS);
  }
}

function unreadyMessage(nodes: readonly { host: string }[], isFromFile: boolean): string {
  const hosts = [...new Set(nodes.map(({ host }) => host))].join(', ');
  return (
    `These nodes do not use the same secret keys: ${hosts}. ` +
    (isFromFile
      ? 'Copy secrets/secret-key of this data directory into theirs, and run this again.'
      : 'Give all nodes the same LETTERHAUS_SECRET_KEY, restart them one after the other, and run this again.')
  );
}

const ADD_KEY = (newKey: string) =>
  'The secret key comes from LETTERHAUS_SECRET_KEY, so this takes three changes of it.\n' +
  `1. Append this key to the current one, after a comma, on every node:  ,${newKey}\n` +
  '2. Restart the nodes one after the other.\n' +
  '3. Run this command again; it prints the next step.';
const SWITCH_KEY =
  'Every node has the new key. Put it before the old one in LETTERHAUS_SECRET_KEY (new,old) on every ' +
  'node, restart them one after the other, and run this command again.';
const REMOVE_KEY =
  'No secret is sealed with an old key any more. Keep only the first key in LETTERHAUS_SECRET_KEY on every node, ' +
  'and restart them one after the other.';

function step(name: string, text: string, fields: object = {}): Success {
  return { data: { object: 'secret_rotation', step: name, ...fields }, text };
}

function parseSeconds(text: string): number {
  const seconds = /^\d{1,4}$/.test(text) ? Number(text) : -1;
  if (seconds >= 0) return seconds;
  throw new InvalidArgumentError('Write a number of seconds, for example 60.');
}
