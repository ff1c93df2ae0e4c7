/**
 * Routes of the queue: its report, and hold, release, retry and drop. A caller reaches its project and environment; a
 * member can also select the whole organization.
 *
 * A request works for a few seconds at most. The caller continues a change of a longer queue, and maintenance
 * continues a drop.
 */
import type { FastifyRequest } from 'fastify';
import { isRefusal, refuseFields, type Refusal } from '../../core/refusals.ts';
import { markDrop, restoreDrop } from './drop.ts';
import { type QueueReader, reportProvider, reportQueue } from './queue-report.ts';
import { parseDomain } from '../../mail/address.ts';
import { isId } from '../../database/ids.ts';
import { type QueueChange, type QueueSelector, WHOLE_QUEUE } from './change-store.ts';
import {
  createDrop,
  deleteDrop,
  listUndoableDrops,
  type QueueDrop,
  undoDrop,
} from './drop-store.ts';
import { changeQueue } from './change.ts';
import { callerOf } from '../../http/access.ts';
import { notFound, refuse } from '../../http/errors.ts';
import { failures, idParams } from '../../http/schemas.ts';
import {
  queue,
  queueChange,
  queueChangeRequest,
  queueDrop,
  queueProvider,
  queueProviderParams,
  queueQuery,
  queueSelection,
} from './schemas.ts';
import type { App, HttpServices } from '../../http/services.ts';

const TAGS = ['Queue'];
/** Milliseconds that a request may work. Then the response has the cursor to continue from. */
const REQUEST_BUDGET_MS = 5_000;

export function registerQueueRoutes(app: App, services: HttpServices): void {
  registerReports(app, services);
  registerChange(app, services, {
    change: 'hold',
    about: 'Puts waiting mail on hold until it is released',
  });
  registerChange(app, services, { change: 'release', about: 'Releases mail on hold' });
  registerChange(app, services, { change: 'retry', about: 'Makes waiting mail due now' });
  registerDrop(app, services);
  registerUndo(app, services);
}

function registerReports(app: App, { db, config }: HttpServices): void {
  const context = { db, shaping: config.shaping };
  app.get('/v1/queue', {
    schema: {
      summary: 'Show waiting mail',
      description:
        'Returns the waiting mail by provider and by project. A provider has its counts, its state, and the limit ' +
        'that applies with its setting. The cost does not depend on the length of the queue.',
      operationId: 'getQueue',
      tags: TAGS,
      querystring: queueQuery,
      response: { 200: queue, ...failures(422) },
    },
    handler: async (request, reply) => {
      const reader = readerOf(request, request.query.scope);
      if (isRefusal(reader)) return refuse(reply, reader);
      const { organizationId, isMember, within } = reader;
      const owner = { organizationId, isMember, ...ALL_PROJECTS, ...within };
      const [report, drops] = await Promise.all([
        reportQueue({ ...context, db: db.readsOf(reader.own.projectId) }, reader),
        listUndoableDrops(db, owner),
      ]);
      return { ...report, drops: drops.map(dropToWire) };
    },
  });

  app.get('/v1/queue/providers/:provider', {
    schema: {
      summary: 'Show a provider in the queue',
      description:
        'Returns the entry of a provider in the queue, with its settings in effect, their sources, and its ' +
        'last replies.',
      operationId: 'getQueueProvider',
      tags: TAGS,
      params: queueProviderParams,
      querystring: queueQuery,
      response: { 200: queueProvider, ...failures(422) },
    },
    handler: async (request, reply) => {
      const reader = readerOf(request, request.query.scope);
      if (isRefusal(reader)) return refuse(reply, reader);
      return reportProvider(context, reader, request.params.provider);
    },
  });
}

function registerChange(
  app: App,
  { db, world }: HttpServices,
  { change, about }: { change: QueueChange; about: string },
): void {
  app.post(`/v1/queue/${change}`, {
    schema: {
      summary: `${change[0]!.toUpperCase()}${change.slice(1)} waiting mail`,
      description:
        `${about}. Select mail by email, domain and provider (all given selectors must match), or with \`all\`. ` +
        'Mail that a worker has claimed does not change. One request may change only part of a long queue. `next` ' +
        'is then the position to continue from.',
      operationId: `${change}Queue`,
      tags: TAGS,
      body: queueChangeRequest,
      response: { 200: queueChange, ...failures(400, 404, 413, 415, 422) },
    },
    handler: async (request, reply) => {
      const { from, ...selection } = request.body;
      const selector = selectorOf(request, selection);
      if (isRefusal(selector)) return refuse(reply, selector);
      const changed = await changeQueue({ db, world }, change, { selector, from });
      if (changed.found === 0 && selector.emailId !== null) return notFound(reply, 'waiting email');
      return {
        object: 'queue_change' as const,
        change,
        selection: selectionText(selector),
        ...changed,
      };
    },
  });
}

function registerDrop(app: App, { db, world }: HttpServices): void {
  app.post('/v1/queue/drop', {
    schema: {
      summary: 'Drop waiting mail',
      description:
        'Puts the selected mail on hold and cancels it a minute later, with events and webhooks, unless you ' +
        'undo the drop before. Mail that a worker has claimed, and mail that is queued later, is not dropped.',
      operationId: 'dropQueue',
      tags: TAGS,
      body: queueSelection,
      response: { 202: queueDrop, ...failures(400, 404, 413, 415, 422) },
    },
    handler: async (request, reply) => {
      const selector = selectorOf(request, request.body);
      if (isRefusal(selector)) return refuse(reply, selector);
      const { organizationId } = callerOf(request);
      const drop = await createDrop(db, { ...selector, id: world.newId(), organizationId });
      const untilMs = world.monotonicMs() + REQUEST_BUDGET_MS;
      const marked = (await markDrop(db, drop, () => world.monotonicMs() < untilMs)) ?? drop;
      const isEmpty = marked.next === null && marked.marked === 0;
      if (isEmpty) await deleteDrop(db, drop.id);
      if (marked.found === 0 && selector.emailId !== null) return notFound(reply, 'waiting email');
      return reply.code(202).send(dropToWire(marked));
    },
  });
}

function registerUndo(app: App, { db, world }: HttpServices): void {
  app.delete('/v1/queue/drops/:id', {
    schema: {
      summary: 'Undo a drop',
      description:
        'Undoes a drop within a minute and restores the mail to its state before. Returns 409 when the ' +
        'minute is over, and 404 after the drop was carried out.',
      operationId: 'undoQueueDrop',
      tags: TAGS,
      params: idParams('drop'),
      response: { 200: queueDrop, ...failures(404, 409) },
    },
    handler: async (request, reply) => {
      const { id } = request.params;
      const { organizationId, projectId, environment } = callerOf(request);
      const within = readsAllProjects(request) ? ALL_PROJECTS : { projectId, environment };
      const drop = isId(id) ? await undoDrop(db, id, { organizationId, ...within }) : null;
      if (drop === null) return notFound(reply, 'drop');
      if (drop.undoneAt === null) return refuse(reply, UNDO_TOO_LATE);
      const untilMs = world.monotonicMs() + REQUEST_BUDGET_MS;
      await restoreDrop(db, drop, () => world.monotonicMs() < untilMs);
      return dropToWire(drop);
    },
  });
}

const ALL_PROJECTS = { projectId: null, environment: null };

const UNDO_TOO_LATE: Refusal = {
  refused: 'conflict',
  message: 'The minute is over, and the mail is being dropped. Send it again if you need it.',
};
const ONLY_IN_SESSIONS: Refusal = {
  refused: 'authorization_error',
  message:
    'A key has access to one project and environment. Only signed-in members can select the organization.',
};
const ONLY_SOME_PROJECTS: Refusal = {
  refused: 'authorization_error',
  message: 'You have roles in some projects of the organization only; select a project.',
};
const NOTHING_SELECTED: Refusal = {
  refused: 'validation_error',
  message:
    'Select recipients with email_id, domain or provider (all given selectors must match), or all.',
};
const ALL_WITH_SELECTORS: Refusal = {
  refused: 'validation_error',
  message: 'all cannot be combined with email_id, domain or provider.',
};

type RequestedScope = 'project' | 'organization';

/** Returns whether the caller is a member with a role in all projects. Others see one project, as a key does. */
function readsAllProjects({ session }: FastifyRequest): boolean {
  return session !== null && session.projectRoles === null;
}

function readerOf(request: FastifyRequest, scope: RequestedScope): QueueReader | Refusal {
  const { organizationId, projectId, environment } = callerOf(request);
  const isMember = readsAllProjects(request);
  if (scope === 'organization' && !isMember) {
    return request.session === null ? ONLY_IN_SESSIONS : ONLY_SOME_PROJECTS;
  }
  const own = { projectId, environment };
  return { organizationId, isMember, own, within: scope === 'project' ? own : null };
}

type RequestedSelection = {
  email_id?: string | undefined;
  domain?: string | undefined;
  provider?: string | undefined;
  all?: true | undefined;
  scope: RequestedScope;
};

function selectorOf(
  request: FastifyRequest,
  requested: RequestedSelection,
): QueueSelector | Refusal {
  const { email_id: emailId, domain: text, provider, all, scope } = requested;
  const isNarrow = [emailId, text, provider].some((value) => value !== undefined);
  if (!isNarrow && all !== true) return NOTHING_SELECTED;
  if (isNarrow && all === true) return ALL_WITH_SELECTORS;
  const reader = readerOf(request, scope);
  if (isRefusal(reader)) return reader;
  const domain = text === undefined ? null : parseDomain(text);
  if (text !== undefined && domain === null) {
    return refuseFields([
      { field: 'domain', message: `${JSON.stringify(text)} is not a domain name.` },
    ]);
  }
  if (emailId !== undefined && !isId(emailId)) {
    const message = `There is no waiting email with this id in this project and environment.`;
    return { refused: 'not_found', message };
  }
  const { organizationId, within } = reader;
  const selection = { emailId: emailId ?? null, domain, provider: provider ?? null };
  return { ...WHOLE_QUEUE, ...selection, organizationId, ...within };
}

type SelectionFields = Pick<QueueSelector, 'emailId' | 'domain' | 'provider' | 'projectId'>;

function selectionText({ emailId, domain, provider, projectId }: SelectionFields): string {
  const parts = [
    ['email', emailId],
    ['domain', domain],
    ['provider', provider],
  ].flatMap(([name, value]) => (value === null ? [] : [`${name}:${value}`]));
  const scope = projectId === null ? ['organization'] : [];
  return [...(parts.length === 0 ? ['all'] : parts), ...scope].join(' ');
}

function dropToWire(drop: QueueDrop) {
  return {
    object: 'queue_drop' as const,
    id: drop.id,
    selection: selectionText(drop),
    found: drop.found,
    busy: drop.busy,
    changed: drop.marked,
    is_complete: drop.next === null,
    created_at: drop.createdAt.toISOString(),
    drops_at: drop.dropsAt.toISOString(),
    undone_at: drop.undoneAt?.toISOString() ?? null,
  };
}
