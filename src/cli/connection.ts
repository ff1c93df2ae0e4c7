/**
 * Connects a command to the API. The service is the one of --url or LETTERHAUS_URL, else of a saved profile
 * (`letterhaus login`), else the one that runs on the data directory of this machine, by its admin socket. The key
 * comes from --key, from LETTERHAUS_API_KEY where an address is given, or from the profile. This machine needs none.
 */
import { statSync } from 'node:fs';
import type { ClientRequest, IncomingMessage } from 'node:http';
import { pipeline, Readable } from 'node:stream';
import { setTimeout as pause } from 'node:timers/promises';
import type { ReadableStream as WebStream } from 'node:stream/web';
import { mergeEnvFiles } from '../config/env-file.ts';
import { readRunning } from '../database/embedded/lock.ts';
import { type Cli, type Failure, isFailure, usageFailure } from './command.ts';
import { readProfile } from './profile.ts';

/** A first start creates its database. */
const STARTED_WITHIN_MS = 120_000;
/** Between the start of the process and its lock. */
const LOCKED_WITHIN_MS = 15_000;
const LOOK_EVERY_MS = 250;

export type ConnectionOptions = { url?: string | undefined; key?: string | undefined };

export type Connection = {
  /** Names the service in messages. */
  origin: string;
  /** null for the operator of this machine. */
  key: string | null;
  /** Sends a request to a path, with the key, if any. @throws when the service does not answer */
  send: Send;
};

/** @property service why the service of this machine cannot be reached, where waiting may help */
type ServiceFailure = Failure & { service?: 'starting' | 'absent' };

type Send = (path: string, init?: RequestInit) => Promise<Response>;

export type ConnectionRules = {
  /** A key in the environment also applies to the service on this machine, for commands that send with it. */
  takesKeyOfEnv?: boolean;
  /** Only the operator of the machine may run the command. */
  onlyHere?: boolean;
  /** The command also waits for a service that has no lock yet: it is pasted below the command that starts it. */
  followsStart?: boolean;
};

/** Like `connect`, and waits for a service on this machine that starts: systemctl returns before it is ready. */
export async function connectWhenStarted(
  cli: Pick<Cli, 'env' | 'err' | 'world'>,
  options: ConnectionOptions,
  rules: ConnectionRules = {},
): Promise<Connection | Failure> {
  const begunMs = cli.world.monotonicMs();
  const waits = { starting: STARTED_WITHIN_MS, absent: rules.followsStart ? LOCKED_WITHIN_MS : 0 };
  for (let looks = 0; ; looks += 1) {
    const connection: Connection | ServiceFailure = connect(cli, options, rules);
    if (!isFailure(connection) || connection.service === undefined) return connection;
    const waitMaxMs = waits[connection.service];
    if (waitMaxMs === 0 || cli.world.monotonicMs() - begunMs > waitMaxMs) return connection;
    if (looks === 0) cli.err('The service is not ready yet. The command waits for it.\n');
    await pause(LOOK_EVERY_MS);
  }
}

export function connect(
  cli: Pick<Cli, 'env'>,
  options: ConnectionOptions,
  { takesKeyOfEnv = false, onlyHere = false }: ConnectionRules = {},
): Connection | ServiceFailure {
  const settings = mergeEnvFiles(cli.env);
  const text = (name: string) => settings.env[name]?.trim() || undefined;
  if (onlyHere) return connectHere(settings.dataDir, null);
  const keyOfEnv = text('LETTERHAUS_API_KEY');
  const url = options.url ?? text('LETTERHAUS_URL');
  if (url !== undefined) return connectRemote(url, options.key ?? keyOfEnv);
  const profile = readProfile(cli.env);
  const key = options.key ?? (takesKeyOfEnv && profile === null ? keyOfEnv : undefined);
  if (profile !== null) return connectRemote(profile.url, key ?? profile.key);
  return connectHere(settings.dataDir, key ?? null);
}

function connectHere(dataDir: string, key: string | null): Connection | ServiceFailure {
  const socket = adminSocketOf(dataDir);
  if (isFailure(socket)) return socket;
  return { origin: 'this machine', key, send: sendOverSocket(socket.path, key) };
}

function connectRemote(url: string, key: string | undefined): Connection | Failure {
  const parsed = URL.parse(url);
  if (parsed === null || !/^https?:$/.test(parsed.protocol)) {
    return usageFailure(
      `${JSON.stringify(withoutLogin(url))} is not the address of a service; write it like http://127.0.0.1:3000.`,
    );
  }
  if (parsed.username || parsed.password) {
    return usageFailure(
      `The address of a service has no user and no password: write ${parsed.origin}, and give the key with --key.`,
    );
  }
  if (!key) return usageFailure('An API key is needed: give --key or set LETTERHAUS_API_KEY.');
  // Failures of fetch quote what they refuse.
  if (!/^[!-~]+$/.test(key))
    return usageFailure('The API key has characters that are not allowed in a key.');
  const base = parsed.href.replace(/\/+$/, '');
  const send: Send = (path, init) =>
    fetch(base + path, { ...init, headers: headersWithKey(init, key), redirect: 'manual' });
  return { origin: parsed.origin, key, send };
}

/** Removes user and password from an address, for messages. */
function withoutLogin(url: string): string {
  return url.replace(/^((?:[a-z]+:)?\/*).*@/is, '$1…@');
}

function headersWithKey(init: RequestInit | undefined, key: string | null): Record<string, string> {
  const { authorization: _, ...headers } = (init?.headers ?? {}) as Record<string, string>;
  return key === null ? headers : { ...headers, authorization: `Bearer ${key}` };
}

/** Returns the admin socket of the service on a data directory, or a failure when none serves this user there. */
function adminSocketOf(dataDir: string): { path: string } | ServiceFailure {
  const elsewhere = 'or give --url and --key for one elsewhere';
  try {
    const found = statSync(dataDir, { throwIfNoEntry: false });
    if (found !== undefined && !found.isDirectory()) {
      return usageFailure(`${dataDir} is no folder: set LETTERHAUS_DATA_DIR to another folder.`);
    }
    const isForeign = found !== undefined && found.uid !== process.geteuid?.();
    if (isForeign && process.geteuid?.() !== 0) {
      return usageFailure(
        `The data directory ${dataDir} belongs to another user (uid ${found.uid}): run this command as that user, ${elsewhere}.`,
      );
    }
    const running = readRunning(dataDir);
    if (running?.kind === 'service' && running.adminSocket) return { path: running.adminSocket };
    if (running?.kind === 'service' && running.url === null) {
      const message = 'The service is starting: repeat the command in a moment.';
      return { ...unavailable(message), service: 'starting' };
    }
    if (running?.kind === 'service') {
      return unavailable('The running service has an older version: restart it.');
    }
  } catch (error) {
    return usageFailure(`The data directory cannot be read: ${(error as Error).message}.`);
  }
  const absent = `No service is running on this machine (data directory ${dataDir}): start it with \`letterhaus start\`, ${elsewhere}.`;
  return { ...usageFailure(absent), service: 'absent' };
}

function unavailable(message: string): Failure {
  return { failed: message, code: 'service_unavailable', exitCode: 1 };
}

/** Uses node:http, which loads in a fifth of the time of a client with sockets. */
function sendOverSocket(socketPath: string, key: string | null): Send {
  return async (path, init = {}) => {
    const { request } = await import('node:http');
    const { method = 'GET', body, signal } = init;
    const headers = { ...headersWithKey(init, key), host: 'localhost' };
    return new Promise((resolve, reject) => {
      const options = { socketPath, method, path, headers };
      const sent = request({ ...options, ...(signal && { signal }) });
      sent.on('error', reject);
      sent.on('response', (message) => resolve(responseOf(message)));
      if (body instanceof ReadableStream) sendBody(body, sent, reject);
      else sent.end(body);
    });
  };
}

/** Sends the body. A response may come before its end; the rest then fails to be sent. */
function sendBody(body: WebStream, request: ClientRequest, onError: (error: Error) => void): void {
  pipeline(Readable.fromWeb(body), request, (error) => {
    if (error) onError(error);
  });
}

function responseOf(message: IncomingMessage): Response {
  const headers = Object.entries(message.headers).map(([name, value]): [string, string] => {
    return [name, String(value)];
  });
  const body = Readable.toWeb(message) as WebStream<Uint8Array>;
  return new Response(body as ConstructorParameters<typeof Response>[0], {
    status: message.statusCode ?? 500,
    headers,
  });
}

export function noResponse(origin: string, error: unknown): Failure {
  return unavailable(
    `No response from the service at ${origin} (${failureReason(error)}); check that it runs there.`,
  );
}

/** Returns why there was no response, as part of a sentence. */
export function failureReason(error: unknown): string {
  const { message, cause } = error as Error & { cause?: unknown };
  return cause instanceof Error ? failureReason(cause) : message;
}
