/**
 * Routes of the event stream: pages to poll, or a response that stays open. A key for one domain sees only the events
 * of that domain and its mail.
 */
import { Readable } from 'node:stream';
import type { FastifyReply } from 'fastify';
import { EVENT_TYPES, type EventType } from '../core/events.ts';
import { isRefusal, type Refusal, refuseFields } from '../core/refusals.ts';
import type { Caller } from '../core/scope.ts';
import { mostSimilar } from '../lib/similar.ts';
import { isStreamIndexed } from './order-store.ts';
import { BEGINNING, latestPoint, type StreamPoint } from './stream-store.ts';
import { isId } from '../database/ids.ts';
import { callerOf, createCallerLookup } from '../http/access.ts';
import { refuse } from '../http/errors.ts';
import { parseCursor, cursorText } from './cursor.ts';
import { EventStreams, streamEventToWire, type StreamRequest } from './streams.ts';
import { failures } from '../http/schemas.ts';
import { eventHeaders, eventPage, eventQuery } from './schemas.ts';
import type { App, HttpServices } from '../http/services.ts';

const INDEXING: Refusal = {
  refused: 'service_unavailable',
  message: 'The index of the event stream is being built after an upgrade; try again later.',
};

type Query = {
  after?: string | undefined;
  types?: string | undefined;
  email_id?: string | undefined;
};

export function registerEventRoutes(app: App, services: HttpServices): void {
  const { db, config, accounts } = services;
  const streams = new EventStreams({
    ...services,
    retentionH: config.retention.metadataH,
  });
  app.addHook('preClose', (done) => {
    streams.close();
    done();
  });
  const isReady = rememberTrue(() => isStreamIndexed(db));
  app.get('/v1/events', {
    config: { withinDomain: true },
    exposeHeadRoute: false,
    schema: {
      summary: 'Read the stream of events',
      description:
        'Returns all events of this project and environment, in commit order and without gaps. Pass the ' +
        '`cursor` of each response as `after` of the next request. With `Accept: text/event-stream` the ' +
        'response stays open, and `Last-Event-ID` resumes it. Returns 409 when the cursor is no longer valid.',
      operationId: 'listEvents',
      tags: ['Events'],
      querystring: eventQuery,
      headers: eventHeaders,
      response: { 200: eventPage, ...failures(409, 422) },
    },
    handler: async (request, reply) => {
      const caller = callerOf(request);
      if (!(await isReady())) return refuse(reply, INDEXING);
      const filter = parseFilter(caller, request.query);
      if (isRefusal(filter)) return refuse(reply, filter);
      const lastEventId = request.headers['last-event-id'];
      const text = (lastEventId === '' ? undefined : lastEventId) ?? request.query.after;
      const after = text === 'latest' ? await latestPoint(db, caller) : parsePosition(text, caller);
      if (isRefusal(after)) return refuse(reply, after);
      const callerAgain = createCallerLookup(accounts, request);
      const streamRequest = { caller, callerAgain, filter, after };
      const isOpen = /\btext\/event-stream\b/i.test(request.headers.accept ?? '');
      if (isOpen) return openStream(streams, streamRequest, reply);
      const page = await streams.page(streamRequest, request.query.limit);
      if (typeof page === 'string') return refuse(reply, refuseCursor(page));
      return {
        object: 'list' as const,
        data: page.events.map((event) => streamEventToWire(event, caller)),
        has_more: page.hasMore,
        cursor: cursorText(page.next, caller),
      };
    },
  });
}

async function openStream(
  streams: EventStreams,
  request: StreamRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const opened = await streams.open(request);
  if (typeof opened === 'string') return refuse(reply, refuseCursor(opened));
  reply.raw.once('close', opened.leave);
  if (reply.raw.closed) opened.leave();
  return reply
    .headers({
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-store',
      // A kept connection would delay a stop after the last event.
      connection: 'close',
      // Keeps nginx from buffering events.
      'x-accel-buffering': 'no',
    })
    .send(Readable.from(opened.text, { objectMode: false }));
}

function parseFilter(caller: Caller, query: Query): StreamRequest['filter'] | Refusal {
  const types = query.types === undefined ? null : parseTypes(query.types);
  if (types !== null && isRefusal(types)) return types;
  const { email_id: emailId = null } = query;
  if (emailId !== null && !isId(emailId)) {
    return refuseFields([{ field: 'email_id', message: 'is not the id of an email' }]);
  }
  return { types, emailId, domain: caller.domain };
}

function parseTypes(text: string): EventType[] | Refusal {
  const types: EventType[] = [];
  for (const word of text.split(',').map((part) => part.trim())) {
    const type = EVENT_TYPES.find((known) => known === word);
    if (type === undefined) {
      const similar = mostSimilar(word, EVENT_TYPES);
      const hint = similar === null ? '' : `; did you mean ${similar}?`;
      const message = `there is no event ${JSON.stringify(word)}${hint}`;
      return refuseFields([{ field: 'types', message }]);
    }
    types.push(type);
  }
  return types;
}

function parsePosition(text: string | undefined, caller: Caller): StreamPoint | Refusal {
  if (text === undefined) return BEGINNING;
  const message =
    'is not a cursor of this project and environment; pass the cursor of an earlier response, or none';
  return parseCursor(text, caller) ?? refuseFields([{ field: 'after', message }]);
}

/** Offers both ways to continue, because only the client knows which events it has handled. */
function refuseCursor(why: string): Refusal {
  return {
    refused: 'conflict',
    message:
      `This cursor is no longer valid: ${why}. Read again without after, from the oldest stored event, ` +
      'and skip the ids that you know; or continue with after=latest.',
  };
}

/** Returns a check that is not repeated after it was true. */
function rememberTrue(check: () => Promise<boolean>): () => Promise<boolean> {
  let isTrue = false;
  return async () => (isTrue ||= await check());
}
