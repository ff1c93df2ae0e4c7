/**
 * Which user the database runs as. An ordinary user runs it as itself. PostgreSQL refuses to run as
 * root, so root gives it a private numeric user that no account has: no `useradd`, and nothing
 * shared with other services as `nobody` is. `initdb` alone insists on a user with a name and
 * borrows one; cluster.ts keeps that user's other processes out.
 */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { Owner } from './folders.ts';
import { EngineProblem } from './problem.ts';

/**
 * Ids that neither distributions nor systemd hand out (systemd.io/UIDS-GIDS: 60706-61183 unused),
 * and below 65536, because unprivileged containers map no others.
 */
const FIRST_PRIVATE_ID = 60_706;
const PRIVATE_ID_COUNT = 478;

/** Root, or in macOS's numbering of `nobody` (-2), something spawn cannot take. */
const GREATEST_PLAIN_ID = 0x7fff_ffff;

type Account = { name: string; uid: number };

/** The id for the database of a folder: the same at every start, no account's and no group's. */
export function privateOwner(databaseDir: string, taken: ReadonlySet<number> = takenIds()): Owner {
  const seed = createHash('sha256').update(databaseDir).digest().readUInt32BE(0);
  for (let step = 0; step < PRIVATE_ID_COUNT; step++) {
    const id = FIRST_PRIVATE_ID + ((seed + step) % PRIVATE_ID_COUNT);
    if (!taken.has(id)) return { uid: id, gid: id };
  }
  throw new EngineProblem(
    'no-private-user',
    `All user ids from ${FIRST_PRIVATE_ID} on are taken: run Posthorn as an ordinary user, or set DATABASE_URL.`,
  );
}

/** Some unprivileged user that has a name, for initdb. */
export function namedUser(): number {
  const plain = accounts().filter(({ uid }) => uid > 0 && uid <= GREATEST_PLAIN_ID);
  const chosen =
    plain.find(({ name }) => name === 'nobody') ??
    plain.find(({ name }) => name === 'daemon') ??
    plain[0];
  if (chosen) return chosen.uid;
  throw new EngineProblem(
    'no-private-user',
    'There is no user besides root in /etc/passwd: run Posthorn as an ordinary user, or set DATABASE_URL.',
  );
}

/** `alice (uid 1000)`, or the number alone. */
export function describeUser(uid: number): string {
  const name = accounts().find((account) => account.uid === uid)?.name;
  return name === undefined ? `uid ${uid}` : `${name} (uid ${uid})`;
}

function accounts(): Account[] {
  return idsIn('/etc/passwd');
}

function takenIds(): Set<number> {
  return new Set([...idsIn('/etc/passwd'), ...idsIn('/etc/group')].map(({ uid }) => uid));
}

/** Both files hold the name first and the number third. */
function idsIn(file: string): Account[] {
  return readFileSync(file, 'utf8')
    .split('\n')
    .map((line) => line.split(':'))
    .filter((fields) => fields.length > 2)
    .map(([name = '', , id]) => ({ name, uid: Number(id) }));
}
