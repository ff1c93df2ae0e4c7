/**
 * Checks out another version of this clone into a temporary git worktree, with the packages of its package-lock.json.
 * A version refuses variables that were added after it, so a checkout names those of the tests that it does not know.
 */
import { execFile, execFileSync } from 'node:child_process';
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { mkdtemp, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { cleanEnv, type Env } from '../../test/support/letterhaus.ts';

const ROOT = join(import.meta.dirname, '../..');
const run = promisify(execFile);

export class Checkout implements Disposable {
  /** Path of its bin/letterhaus. */
  readonly launcher: string;
  /** Unsets the variables that tests set and this version does not know. */
  env: Env = {};
  readonly #folder: string;
  readonly #remove = (): void => this[Symbol.dispose]();

  /** @throws when the commit does not exist or its packages cannot be installed */
  static async of(commit: string): Promise<Checkout> {
    const checkout = new Checkout(await mkdtemp(join(tmpdir(), 'letterhaus-bench-')));
    try {
      await checkout.#fill(commit);
      return checkout;
    } catch (error) {
      checkout[Symbol.dispose]();
      throw error;
    }
  }

  constructor(folder: string) {
    this.#folder = folder;
    this.launcher = join(folder, 'clone/bin/letterhaus');
    // This also removes the worktree when a second signal ends the benchmark.
    process.once('exit', this.#remove);
  }

  async #fill(commit: string): Promise<void> {
    const clone = join(this.#folder, 'clone');
    await run('git', ['-C', ROOT, 'worktree', 'add', '--quiet', '--detach', clone, commit]);
    const [own, its] = [ROOT, clone].map((folder) =>
      readFileSync(join(folder, 'package-lock.json'), 'utf8'),
    );
    if (own === its) await symlink(join(ROOT, 'node_modules'), join(clone, 'node_modules'));
    // The launcher installs the packages itself when package-lock.json differs.
    const env = { ...process.env, npm_config_prefer_offline: 'true' };
    await run(process.execPath, [this.launcher, '--version'], { env });
    const source = await run('git', [
      '-C',
      clone,
      'grep',
      '-hoE',
      'LETTERHAUS_[A-Z_]+',
      '--',
      'src',
    ]);
    const known = new Set(source.stdout.split('\n'));
    const unknown = Object.keys(cleanEnv({})).filter(
      (name) => name.startsWith('LETTERHAUS_') && !known.has(name),
    );
    this.env = Object.fromEntries(unknown.map((name) => [name, undefined]));
  }

  [Symbol.dispose](): void {
    process.off('exit', this.#remove);
    const clone = join(this.#folder, 'clone');
    if (existsSync(clone))
      execFileSync('git', ['-C', ROOT, 'worktree', 'remove', '--force', clone]);
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
