/**
 * The official command line of Resend, unmodified, as a process of its own. Its settings are in a folder of
 * the test, and what is not on loopback cannot be reached: everything else is sent through a proxy on a
 * port that is closed.
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

  /** A file that a command reads. @returns its path */
  async file(name: string, content: string): Promise<string> {
    const path = join(this.folder, name);
    await writeFile(path, content);
    return path;
  }

  /** One command to its end. @param key by default the test key of the service */
  run(args: readonly string[], key: string = this.#service.testKey): Promise<CommandEnd> {
    const base = { RESEND_BASE_URL: `${this.#service.url}/`, RESEND_API_KEY: key };
    return this.#start([process.execPath, PROGRAM, ...args], base);
  }

  /** What a user pastes, with `resend` and `node` installed and the key in LETTERHAUS_API_KEY. */
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
      // Most of what a command takes is compiling 3 MB of code.
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

  /** The parsed output of a command that has to succeed. */
  // oxlint-disable-next-line typescript/no-explicit-any
  async json(...args: string[]): Promise<any> {
    const { code, stdout, stderr } = await this.run(args);
    assert.equal(code, 0, `resend ${args.join(' ')}\n${stderr}`);
    return JSON.parse(stdout);
  }

  /** The command fails, and shows the failure of the service with this status and name. */
  async fails(
    args: readonly string[],
    [statusCode, name]: readonly [number, string],
    message: RegExp,
  ): Promise<void> {
    const { code, stdout, stderr } = await this.run(args);
    assert.equal(code, 1, stdout);
    assert.match(stderr, new RegExp(`^ +name: '${name}',$`, 'm'));
    // The JSON of the failure follows what the client has written about it.
    const { error } = JSON.parse(stderr.slice(stderr.indexOf('\n{\n') + 1));
    assert.equal(error.statusCode, statusCode);
    assert.match(error.message, message);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.folder, { recursive: true, force: true });
  }
}
