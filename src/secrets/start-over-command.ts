/**
 * `letterhaus secrets start-over`: for an installation whose secret key is lost for good. It makes a new key that of
 * the database, and marks everything that the lost one had sealed. Mail waits in the queue for the new DKIM keys of its
 * domain. Nothing is deleted.
 *
 * It is refused while the current key opens the database. It is also refused while a node runs, which has the key in
 * memory and writes its file again. The steps can be repeated: if a call dies before it stores the check in the
 * database, the next call renames its key.
 */
import { readFileSync } from 'node:fs';
import type { Command } from 'commander';
import { lockMigrations, readVersion } from '../migration/migrate.ts';
import {
  clientQueries,
  connectAsOwner,
  type DatabaseAddress,
  type Queryable,
} from '../database/database.ts';
import { prepareDataDir } from '../database/embedded/layout.ts';
import { SCHEMA_KNOWN } from '../migration/schema-version.ts';
import { checkSecretKey, readCheck, replaceCheck } from './key-check-store.ts';
import { SecretBox } from './secret-box.ts';
import {
  createSecretKeyFile,
  renameSecretKeyFile,
  secretKeyFile,
  SecretKeyProblem,
} from './secret-key-file.ts';
import { recordFirstKey } from './secret-store.ts';
import { listSecretsToRenew, markAllUnusable, type SecretsToRenew } from './unusable-store.ts';
import {
  addCommand,
  type Cli,
  conflictFailure,
  type Failure,
  type CommandResult,
} from '../cli/command.ts';
import { findRunningNodes } from '../operator/running-nodes.ts';
import { type ConfiguredDatabase, withAddress, withStore } from '../cli/store.ts';

export function describeStartOver(secrets: Command, cli: Cli): void {
  addCommand(secrets, cli, {
    name: 'start-over',
    about: 'make a new secret key when the current one is lost for good',
    notes: `Afterwards you have to renew DKIM keys, signing secrets of webhooks and second factors. Mail waits
meanwhile. Look for the key first: in a backup, on another node, in an earlier data directory.`,
    examples: ['secrets start-over', 'secrets start-over --yes'],
    run: (called, options) => startOver(called, options),
  }).option('--yes', 'do not ask');
}

type Options = { yes?: true };

async function startOver(cli: Cli, options: Options): Promise<CommandResult> {
  // Migrates first, and returns the reason when a database cannot be used.
  const opened = await withStore(cli, () => Promise.resolve({ data: null, text: '' }));
  if ('failed' in opened) return opened;
  return withAddress(cli, async (database) => {
    const before = await withOwnerConnection(database.address, readCheck);
    const refusal = database.isInService ? conflictFailure(RUNS) : await refuseStart(cli, database);
    if (refusal !== null) return refusal;
    if (!(await isConfirmed(cli, options))) {
      return conflictFailure(`${LOST} Nothing was changed; add --yes.`);
    }
    return replace(cli, database, before);
  });
}

const RUNS =
  'A node is running and has the secret key. It writes a missing key file again within seconds. ' +
  'Copy the file from that node. If the key is not the key of the database, stop the node first.';

const LOST =
  'DKIM keys, signing secrets of webhooks and second factors are lost with the key. You have to renew them, and mail waits ' +
  'until then. Unsubscribe and tracking links in sent mail stop working, and late bounces of that mail are not matched.';

async function refuseStart(
  cli: Cli,
  { address, config }: ConfiguredDatabase,
): Promise<Failure | null> {
  return withOwnerConnection(address, async (db) => {
    const schema = await readVersion(db);
    if (schema > SCHEMA_KNOWN) {
      return conflictFailure(`The database has schema ${schema}. Use the version that runs on it.`);
    }
    const { dataDir, secretKey: configured } = config;
    const unreadable = configured === null ? unreadableFile(secretKeyFile(dataDir)) : null;
    if (unreadable !== null) return conflictFailure(unreadable);
    if (await opensDatabase(db, { dataDir, configured })) return conflictFailure(NOTHING_LOST);
    const running = (await findRunningNodes(db, cli.world)).filter(({ isRunning }) => isRunning);
    if (running.length === 0) return null;
    return conflictFailure(`${RUNS} It is on ${running.map(({ host }) => host).join(', ')}.`);
  });
}

/** A file that exists but cannot be read may have the key. */
function unreadableFile(file: string): string | null {
  try {
    readFileSync(file);
    return null;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return null;
    return `${file} cannot be read (${code}). Make it readable first, because it may have the key.`;
  }
}

const NOTHING_LOST =
  'Nothing is lost: the secret key opens the secrets in the database, or there are none. `letterhaus secrets rotate` replaces it.';

async function opensDatabase(
  db: Queryable,
  key: { dataDir: string; configured: string | null },
): Promise<boolean> {
  try {
    await checkSecretKey(db, key);
    return true;
  } catch (error) {
    if (error instanceof SecretKeyProblem) return false;
    throw error;
  }
}

async function isConfirmed({ confirm }: Cli, { yes }: Options): Promise<boolean> {
  if (yes === true) return true;
  return confirm !== undefined && confirm(`${LOST} Make a new key?`);
}

const NO_CHECK = Buffer.alloc(0);
const OTHER_CALL =
  'Another call has just made a key for this database. Copy it from the data directory of that call.';

/** Runs under the migration lock, so no start and no other call checks or makes a key meanwhile. */
async function replace(
  cli: Cli,
  { address, config }: ConfiguredDatabase,
  before: Buffer | null,
): Promise<CommandResult> {
  return withOwnerConnection(address, async (db) => {
    await lockMigrations(db);
    const check = await readCheck(db);
    if (!(check ?? NO_CHECK).equals(before ?? NO_CHECK)) return conflictFailure(OTHER_CALL);
    const dataDir = prepareDataDir(config.dataDir);
    const configured = config.secretKey;
    const keptAs = configured === null ? renameSecretKeyFile(dataDir, cli.world.now()) : null;
    const key = configured ?? createSecretKeyFile(dataDir);
    const secrets = new SecretBox(key);
    await replaceCheck(db, secrets);
    await recordFirstKey(db, secrets.keyIds[0]!);
    await markAllUnusable(db, secrets);
    const toRenew = await listSecretsToRenew(db);
    const where = configured === null ? secretKeyFile(dataDir) : 'LETTERHAUS_SECRET_KEY';
    return {
      data: { object: 'secret_start_over', key: secrets.keyIds[0], kept_as: keptAs, ...toRenew },
      text: describeResult(cli, { where, keptAs, toRenew }),
    };
  });
}

type StartedOver = { where: string; keptAs: string | null; toRenew: SecretsToRenew };

function describeResult({ program }: Cli, { where, keptAs, toRenew }: StartedOver): string {
  const { domains, webhooks, members } = toRenew;
  return [
    `The key in ${where} is now the key of the database. Keep a copy of it.`,
    ...(keptAs === null ? [] : [`The previous key is kept as ${keptAs}.`]),
    'Other nodes need the same key. Start the service, and renew everything that the lost key had sealed:',
    ...domains.flatMap((name) => [
      `  ${program} domains rotate-dkim ${name}    (publish the record that it prints)`,
      `  ${program} domains verify ${name}`,
    ]),
    ...webhooks.map((id) => `  ${program} webhooks rotate-secret ${id}`),
    ...members.map((email) => `  ${program} owner reset ${email} --remove-totp`),
    ...(domains.length + webhooks.length + members.length === 0 ? ['  nothing was sealed'] : []),
    `If the lost key turns up, append it to the new one after a comma and run ${program} secrets rotate.`,
  ].join('\n');
}

async function withOwnerConnection<Result>(
  address: DatabaseAddress,
  work: (db: Queryable) => Promise<Result>,
): Promise<Result> {
  const client = await connectAsOwner(address, 'start over');
  try {
    return await work(clientQueries(client));
  } finally {
    await client.end();
  }
}
