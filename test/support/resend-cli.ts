/**
 * The official command line of Resend, unmodified, in its own process. Its settings are in a folder of the test.
 * Everything outside of loopback goes to a proxy on a closed port, so it cannot be reached.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { ApiClient } from './api-client.ts';
import type { CommandEnd, Env } from './letterhaus.ts';

const NOWHERE = 'http://127.0.0.1:9';
const END_WITHIN_MS = 60_000;

const manifest = createRequire(import.meta.url).resolve('resend-cli/package.json');
const PROGRAM = join(dirname(manifest), 'dist/cli.cjs');

export class ResendCli implements AsyncDisposable {
  readonly folder: string;
  readonly #service: ApiClient;

  private constructor(service: ApiClient, folder: string) {
    this.#service = service;
    this.folder = folder;
  }

  static async at(service: ApiClient): Promise<ResendCli> {
    return new ResendCli(service, await mkdtemp(join(tmpdir(), 'letterhaus-resend-cli-')));
  }

  /** Writes a file for a command. @returns its path */
  async file(name: string, content: string): Promise<string> {
    const path = join(this.folder, name);
    await writeFile(path, content);
    return path;
  }

  /** Runs a command to its end. @param key default: the test key of the service */
  run(args: readonly string[], key: string = this.#service.testKey): Promise<CommandEnd> {
    const base = { RESEND_BASE_URL: `${this.#service.url}/`, RESEND_API_KEY: key };
    return this.#start([process.execPath, PROGRAM, ...args], base);
  }

  /** Runs a script as a user pastes it, with `resend`, `node` and the key in LETTERHAUS_API_KEY. */
  shell(script: string): Promise<CommandEnd> {
    const commands = 'resend() { "$NODE" "$PROGRAM" "$@"; }\nnode() { "$NODE" "$@"; }';
    return this.#start(['/bin/sh', '-eu', '-c', `${commands}\n${script}`], {
      NODE: process.execPath,
      PROGRAM,
      LETTERHAUS_API_KEY: this.#service.testKey,
    });
  }

  #start([command = '', ...args]: readonly string[], more: Env): Promise<CommandEnd> {
    const env = {
      // Compiling 3 MB of code is most of a command's work.
      NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'],
      HOME: this.folder,
      XDG_CONFIG_HOME: this.folder,
      RESEND_CREDENTIAL_STORE: 'file',
      RESEND_TELEMETRY_DISABLED: '1',
      RESEND_NO_UPDATE_NOTIFIER: '1',
      NODE_USE_ENV_PROXY: '1',
      HTTP_PROXY: NOWHERE,
      HTTPS_PROXY: NOWHERE,
      NO_PROXY: '127.0.0.1',
      ...more,
    };
    const options = { env, cwd: this.folder, timeout: END_WITHIN_MS };
    return new Promise((resolve, reject) => {
      execFile(command, args, options, (error, stdout, stderr) => {
        const code = error === null ? 0 : error.code;
        if (typeof code === 'number') resolve({ code, stdout, stderr });
        else reject(new Error(`${args.join(' ')} did not end by itself\n${stderr}`));
      });
    });
  }

  /** Runs a command that must succeed. Returns its parsed output. */
  // oxlint-disable-next-line typescript/no-explicit-any
  async json(...args: string[]): Promise<any> {
    const { code, stdout, stderr } = await this.run(args);
    assert.equal(code, 0, `resend ${args.join(' ')}\n${stderr}`);
    return JSON.parse(stdout);
  }

  /** Asserts that the command fails and shows the service's failure with this status and name. */
  async fails(
    args: readonly string[],
    [statusCode, name]: readonly [number, string],
    message: RegExp,
  ): Promise<void> {
    const { code, stdout, stderr } = await this.run(args);
    assert.equal(code, 1, stdout);
    assert.match(stderr, new RegExp(`^ +name: '${name}',$`, 'm'));
    // The JSON of the failure follows the client's own text.
    const { error } = JSON.parse(stderr.slice(stderr.indexOf('\n{\n') + 1));
    assert.equal(error.statusCode, statusCode);
    assert.match(error.message, message);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.folder, { recursive: true, force: true });
  }
}
