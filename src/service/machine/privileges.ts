/**
 * User of the workers when root starts the service: the user of the embedded database, a user id without an account
 * that owns nothing else. Workers drop privileges before they open or serve anything. Where their user cannot read the
 * code, they load all of it first. The supervisor stays root: it binds ports for workers, including those below 1024,
 * starts the database as another user, and reads certificates.
 */
import { createHash } from 'node:crypto';
import { chownSync, existsSync, mkdirSync, mkdtempSync, readdirSync } from 'node:fs';
import { readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import type { Logger } from 'pino';
import type { CertificateFiles } from './certificates.ts';
import { loadUndici } from '../../net/http/guarded-client.ts';
import { splitDatabaseUrl } from '../../database/server/address.ts';
import { choosePrivateOwner } from '../../database/embedded/folders.ts';
import { isAlive } from '../../database/embedded/process.ts';

export type User = { uid: number; gid: number };

/** Switches permanently to that user, in no other group. @throws with a sentence for the operator */
export function dropTo({ uid, gid }: User): void {
  try {
    process.setgroups?.([]);
    process.setgid?.(gid);
    process.setuid?.(uid);
  } catch (error) {
    throw new Error(
      `Workers cannot become uid ${uid} here (${(error as Error).message}). Run Letterhaus as an ordinary user.`,
      { cause: error },
    );
  }
}

/**
 * Loads the code that is otherwise loaded at its first use, unless everybody can read it. Makes one request to this
 * process, because undici loads its parser with the first request.
 */
export async function loadLazyCode(
  code: string = fileURLToPath(import.meta.resolve('undici')),
): Promise<void> {
  if (everybodyCanRead(code)) return;
  await Promise.all([
    import('openid-client'),
    import('aws4fetch'),
    import('../../mail/html/tracked-html.ts'),
    import('../../mail/reports/dmarc-report.ts'),
    import('../../net/dns-provider/open-provider.ts'),
    import('../../backup/places/locate-place.ts'),
    import('../../doctor/checks.ts'),
  ]);
  const { Agent, request } = await loadUndici();
  const { createServer } = await import('node:http');
  const server = createServer((_request, response) => response.end('{}'));
  server.listen({ port: 0, host: '127.0.0.1', exclusive: true });
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const agent = new Agent();
  const options = { method: 'POST', body: '{}', dispatcher: agent } as const;
  const { body } = await request(`http://127.0.0.1:${port}`, options);
  await body.text();
  await agent.close();
  server.close();
}

/** Checks the permissions of others: the user of the workers owns no code and is in no group that does. */
function everybodyCanRead(file: string): boolean {
  if ((statSync(file).mode & 0o004) === 0) return false;
  for (let folder = dirname(file); ; folder = dirname(folder)) {
    if ((statSync(folder).mode & 0o001) === 0) return false;
    if (folder === dirname(folder)) return true;
  }
}

/**
 * Returns the user of root's workers beside an external database. On a socket, the system user may be the
 * authentication, and the folder may admit only its owner.
 * @param hasOwnLogin workers log in with a password of their own
 * @returns null when they have to keep their user
 */
export function userBeside(
  url: string,
  { dataDir, hasOwnLogin }: { dataDir: string; hasOwnLogin: boolean },
): User | null {
  if (process.geteuid?.() !== 0) return null;
  const { host } = new pg.Client({ connectionString: splitDatabaseUrl(url)?.[0] });
  if (!host.startsWith('/')) return choosePrivateOwner(dataDir);
  const { uid, gid, mode } = statSync(host);
  const letsAllIn = (mode & 0o001) !== 0;
  if (!hasOwnLogin || (uid === 0 && !letsAllIn)) return null;
  return letsAllIn ? choosePrivateOwner(dataDir) : { uid, gid };
}

const CHECK_EVERY_MS = 1_000;

/** Parent of the copies: in memory where possible, so that keys are not on the disk twice. */
const IN_MEMORY = '/run';
const FOLDER_NAME = /^letterhaus-tls-([0-9a-f]{16})-(\d+)$/;

/** Keeps copies of files that only root may read, for workers that are not root. */
export class SharedFiles implements Disposable {
  readonly #parent: string;
  readonly #installation: string;
  readonly #user: User;
  readonly #log: Logger;
  readonly #seen = new Map<string, string>();
  readonly #timer: NodeJS.Timeout;
  #folder: string | null = null;

  /** Removes the copies of killed processes. */
  constructor(
    user: User,
    { dataDir, log, parent = IN_MEMORY }: { dataDir: string; log: Logger; parent?: string },
  ) {
    this.#parent = parent;
    this.#installation = shortHash(dataDir);
    this.#user = user;
    this.#log = log;
    this.#removeLeftovers();
    this.#timer = setInterval(() => this.#copyChanged(), CHECK_EVERY_MS).unref();
  }

  share({ cert, key }: CertificateFiles): CertificateFiles {
    this.#folder ??= this.#makeFolder();
    this.#copyChanged([cert, key]);
    return { cert: this.#copyOf(cert), key: this.#copyOf(key) };
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
    if (this.#folder !== null) rmSync(this.#folder, { recursive: true, force: true });
  }

  #makeFolder(): string {
    const name = `letterhaus-tls-${this.#installation}-${process.pid}`;
    const folder = existsSync(this.#parent)
      ? join(this.#parent, name)
      : mkdtempSync(join(tmpdir(), 'letterhaus-tls-'));
    mkdirSync(folder, { mode: 0o700, recursive: true });
    chownSync(folder, this.#user.uid, this.#user.gid);
    return folder;
  }

  /** Removes the folders of this data directory, whose lock we have, and of processes that have ended. */
  #removeLeftovers(): void {
    if (!existsSync(this.#parent)) return;
    for (const name of readdirSync(this.#parent)) {
      const [, installation, pid] = FOLDER_NAME.exec(name) ?? [];
      if (installation === undefined) continue;
      if (installation !== this.#installation && isAlive(Number(pid))) continue;
      rmSync(join(this.#parent, name), { recursive: true, force: true });
    }
  }

  #copyOf(file: string): string {
    return join(this.#folder ?? '', shortHash(file));
  }

  #copyChanged(files: Iterable<string> = this.#seen.keys()): void {
    for (const file of files) {
      try {
        const { ino, size, mtimeMs } = statSync(file);
        const seen = `${ino} ${size} ${mtimeMs}`;
        if (this.#seen.get(file) !== seen) this.#copy(file);
        this.#seen.set(file, seen);
      } catch (error) {
        this.#log.error(
          { err: error, file },
          'a certificate cannot be read; the previous one stays in use',
        );
      }
    }
  }

  #copy(file: string): void {
    const copy = this.#copyOf(file);
    rmSync(`${copy}.new`, { force: true });
    writeFileSync(`${copy}.new`, readFileSync(file), { mode: 0o600, flag: 'wx' });
    chownSync(`${copy}.new`, this.#user.uid, this.#user.gid);
    renameSync(`${copy}.new`, copy);
  }
}

function shortHash(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 16);
}
