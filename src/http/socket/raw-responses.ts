/**
 * Responds to input that does not become a request, in the shape of all failures: malformed HTTP, headers that are too
 * large or too slow, an incomplete body, CONNECT, an unknown Expect. Node would respond in plain text or not at all.
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { pendingResponseOn } from './client-connections.ts';
import {
  errorBody,
  type HttpFailure,
  JSON_TYPE,
  malformed,
  PATH_TOO_LONG,
  BODY_TOO_LARGE,
} from '../errors.ts';
import type { HttpServices } from '../services.ts';
import { plainAddress } from '../../net/ip-addresses.ts';
import { isUpload } from './bodies.ts';

// An import would evaluate every export of node:http: three of them load Node's own undici (25 ms).
const { maxHeaderSize, STATUS_CODES } = process.getBuiltinModule('node:http');

type Context = Pick<HttpServices, 'log' | 'world'>;
type ParserError = Error & { code: string; rawPacket?: unknown };

/** Milliseconds for which a client may read the response before the connection is closed. */
const READ_WITHIN_MS = 2_000;

const MALFORMED = malformed(
  'This is not well-formed HTTP/1.1; check what the client or a proxy in between sends.',
);

const CLEAR_TEXT = malformed('This port serves HTTPS; write https:// instead of http://.');

const TOO_SLOW: HttpFailure = {
  status: 408,
  code: 'request_timeout',
  message: 'The request did not arrive in time; send it again.',
};

const TOO_LATE: HttpFailure = {
  status: 503,
  code: 'service_unavailable',
  message:
    'The request took too long: it may or may not have been executed. ' +
    'Check the current state before you repeat the request.',
};

const HEADERS_TOO_LARGE: HttpFailure = {
  status: 431,
  code: 'validation_error',
  message: 'The headers are larger than 16 KB; send fewer or shorter ones.',
};

const NO_TUNNEL: HttpFailure = {
  status: 405,
  code: 'method_not_allowed',
  message: 'CONNECT is not supported: this is not a proxy.',
};

const UNKNOWN_EXPECTATION: HttpFailure = {
  status: 417,
  code: 'validation_error',
  message: 'The only supported Expect is 100-continue; leave the header out.',
};

/** Refuses input that does not reach Fastify. */
export function refuseRawInput(server: Server, context: Context): void {
  server.on('connect', (_request: IncomingMessage, socket: Duplex) => {
    socket.on('error', () => socket.destroy());
    sendRawResponse(socket, NO_TUNNEL, context);
  });
  server.on('checkExpectation', (_request: IncomingMessage, response: ServerResponse) => {
    const requestId = context.world.newId();
    const body = errorBody(UNKNOWN_EXPECTATION, requestId);
    response.writeHead(UNKNOWN_EXPECTATION.status, {
      'content-type': JSON_TYPE,
      'content-length': Buffer.byteLength(body),
      'x-request-id': requestId,
    });
    response.end(body);
    logResponse(UNKNOWN_EXPECTATION, { requestId, socket: response.socket }, context);
  });
}

/** Fastify's clientErrorHandler, called after a parser error or a timeout. */
export function respondToClientError(error: ParserError, socket: Duplex, context: Context): void {
  // Node has removed its listener, and an error event without a listener ends the process.
  socket.on('error', () => socket.destroy());
  if (error.code === 'ECONNRESET' || !socket.writable) return void socket.destroy();
  const respond = (): void => sendRawResponse(socket, failureOf(error), context);
  const pending = pendingResponseOn(socket);
  if (pending === null) return respond();
  if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT' && isUpload(pending.req)) return;
  // The malformed input follows a complete request, whose response must be sent first.
  if (pending.req.complete) return void pending.once('finish', respond);
  // A response that has begun cannot be replaced: the client receives it truncated.
  if (pending.headersSent) socket.destroy();
  else respond();
}

export function respondTooLate(socket: Duplex, context: Context): void {
  sendRawResponse(socket, TOO_LATE, context);
}

export function respondToClearText(socket: Duplex, context: Context): void {
  sendRawResponse(socket, CLEAR_TEXT, context);
}

function sendRawResponse(socket: Duplex, failure: HttpFailure, context: Context): void {
  const requestId = context.world.newId();
  const body = errorBody(failure, requestId);
  const head = [
    `HTTP/1.1 ${failure.status} ${STATUS_CODES[failure.status]}`,
    `content-type: ${JSON_TYPE}`,
    `content-length: ${Buffer.byteLength(body)}`,
    `x-request-id: ${requestId}`,
    ...(failure.status === 405 ? ['allow: GET, HEAD, POST, PATCH, DELETE'] : []),
    'connection: close',
  ];
  if (!socket.writable) return;
  // Half-closes, and drops further input: closing a socket with unread input sends a reset, which can discard the
  // response.
  socket.removeAllListeners('data');
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`);
  socket.resume();
  const closeTimer = setTimeout(() => socket.destroy(), READ_WITHIN_MS).unref();
  socket.once('close', () => clearTimeout(closeTimer));
  logResponse(failure, { requestId, socket }, context);
}

function logResponse(
  { status }: HttpFailure,
  { requestId, socket }: { requestId: string; socket: Duplex | null },
  { log }: Context,
): void {
  const { remoteAddress } = (socket ?? {}) as { remoteAddress?: string };
  const client = remoteAddress && plainAddress(remoteAddress);
  log.info({ method: null, route: null, status, request_id: requestId, client }, 'request');
}

function failureOf(error: ParserError): HttpFailure {
  switch (error.code) {
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return TOO_SLOW;
    case 'HPE_HEADER_OVERFLOW':
      return isRequestLineTooLong(error.rawPacket) ? PATH_TOO_LONG : HEADERS_TOO_LARGE;
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return BODY_TOO_LARGE;
    default:
      return MALFORMED;
  }
}

/** Returns whether the packet that overflowed starts a request whose first line alone is too long. */
function isRequestLineTooLong(packet: unknown): boolean {
  if (!Buffer.isBuffer(packet) || !/^[A-Z]+ /.test(packet.toString('latin1', 0, 16))) return false;
  const end = packet.indexOf('\r\n');
  return end === -1 || end >= maxHeaderSize;
}
