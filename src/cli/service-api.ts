/**
 * A client of a running service's API, for commands to which the limits of an API key apply and which
 * also work from another machine: its address, the key, and failures from error responses.
 */
import { readFileSync } from 'node:fs';
import type { Command } from 'commander';
import { Agent, fetch, type RequestInit, type Response } from 'undici';
import { readConfig } from '../config/config.ts';
import { readRunning } from '../database/embedded/lock.ts';
import { type Environment } from '../core/scope.ts';
import { createKey, removeShortLivedKey } from '../accounts/keys/key-store.ts';
import {
  type Cli,
  failure,
  type Failure,
  isFailure,
  type Outcome,
  usageFailure,
} from './command.ts';
import { chooseScope, modeOption, projectOption, type ProjectOptions, withStore } from './store.ts';

export type ApiOptions = { key?: string; url?: string };
export type OwnKeyOptions = ApiOptions & ProjectOptions & { mode?: Environment };

/** Adds --key and --url. */
export function apiOptions(command: Command): Command {
  return command
    .option('--key <key>', 'API key (default: LETTERHAUS_API_KEY)')
    .option(
      '--url <url>',
      'address of the service (default: LETTERHAUS_URL, or the one on this machine)',
    );
}

/** The same for a command that makes its own key on the machine of the service: see withApi. */
export function ownKeyOptions(command: Command): Command {
  return apiOptions(command)
    .addOption(modeOption().conflicts('key'))
    .addOption(projectOption().conflicts('key'));
}

/** Longer than any request of a command takes. */
const OWN_KEY_LASTS_MS = 5 * 60_000;

/**
 * Does the work with the given key. Without one, who can open the database of the service that runs here
 * needs none: a key that may send is made for this work and removed after it. Where the command dies before,
 * the key expires soon, and the next use removes it. Its environment is --mode, by default test, so that nothing real is sent by mistake.
 */
export async function withApi(
  cli: Cli,
  options: OwnKeyOptions,
  work: (api: ServiceApi) => Promise<Outcome>,
): Promise<Outcome> {
  const isOwn =
    (options.key ?? cli.env['LETTERHAUS_API_KEY'] ?? '') === '' &&
    (options.url ?? cli.env['LETTERHAUS_URL']) === undefined &&
    runningHere(cli) !== null;
  if (!isOwn) {
    const api = apiOf(cli, options);
    return isFailure(api) ? api : work(api);
  }
  return withStore(cli, async ({ db }) => {
    const scope = await chooseScope(db, { ...options, mode: options.mode ?? 'test' });
    if (isFailure(scope)) return scope;
    const { key, text } = await createKey(db, scope, {
      name: 'letterhaus send',
      permission: 'sending_access',
      domain: null,
      expiresAt: new Date(cli.world.now() + OWN_KEY_LASTS_MS),
    });
    try {
      const api = apiOf(cli, { key: text });
      return isFailure(api) ? api : await work(api);
    } finally {
      await removeShortLivedKey(db, scope, key);
    }
  });
}

export type ServiceApi = {
  /** The address without a path, for messages. */
  origin: string;
  /** @throws TypeError of fetch when the service does not respond */
  request(path: string, init?: RequestInit): Promise<Response>;
};

/**
 * @param options.silenceMs time without data after which a response is aborted
 * @returns a failure when the key or the address is missing
 */
export function apiOf(
  cli: Cli,
  options: ApiOptions,
  { silenceMs }: { silenceMs?: number } = {},
): ServiceApi | Failure {
  const key = options.key ?? cli.env['LETTERHAUS_API_KEY'];
  const asked = options.url ?? cli.env['LETTERHAUS_URL'];
  const here = asked === undefined ? runningHere(cli) : null;
  const url = asked ?? here?.url;
  if (url === undefined) {
    return usageFailure(
      'No service is running on this machine: start it, or give --url or LETTERHAUS_URL.',
    );
  }
  if (!key) return usageFailure('An API key is needed: give --key or set LETTERHAUS_API_KEY.');
  const parsed = URL.parse(url);
  if (parsed === null || !/^https?:$/.test(parsed.protocol)) {
    return usageFailure(
      `${JSON.stringify(url)} is not the address of a service; write it like http://127.0.0.1:3000.`,
    );
  }
  const dispatcher = new Agent({
    ...(silenceMs !== undefined && { bodyTimeout: silenceMs }),
    ...trusting(here?.certificate ?? null),
  });
  return {
    origin: parsed.origin,
    request: (path, init = {}) =>
      fetch(new URL(path, url), {
        ...init,
        headers: { ...(init.headers as Record<string, string>), authorization: `Bearer ${key}` },
        dispatcher,
      }),
  };
}

type Here = { url: string; certificate: string | null };

/** The service that runs on the configured data directory; null also when this user may not read it. */
function runningHere(cli: Cli): Here | null {
  const read = readConfig(cli.env);
  if (!read.ok) return null;
  const { dataDir, apiTlsFiles } = read.config;
  try {
    const url = readRunning(dataDir)?.url ?? null;
    return url === null ? null : { url, certificate: apiTlsFiles?.cert ?? null };
  } catch {
    return null;
  }
}

/**
 * The local service is reached by an IP address, which its certificate does not name. Exactly this
 * certificate is trusted, without a check of the name.
 */
function trusting(certificate: string | null): Pick<Agent.Options, 'connect'> {
  if (certificate === null) return {};
  const ca = readFileSync(certificate);
  const checkServerIdentity = () => undefined;
  return { connect: { ca, allowPartialTrustChain: true, checkServerIdentity } };
}

export function noAnswer(origin: string, error: unknown): Failure {
  const { message, cause } = error as Error & { cause?: Error };
  const why = cause?.message || message;
  return {
    failed: `No answer from the service at ${origin} (${why}); check that it runs there.`,
    code: 'service_unavailable',
    exitCode: 1,
  };
}

export type ErrorAnswer = { error?: { code: string; message: string } };

/** The failure in an error response. */
export function refusedBy({ error }: ErrorAnswer): Failure {
  const { code = 'internal_error', message = 'the answer has no error in it' } = error ?? {};
  return failure({ refused: code, message });
}
