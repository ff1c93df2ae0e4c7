/**
 * `/templates` of the root mount. A template for Resend has its variables in triple braces, `{{{NAME}}}`. It is stored
 * as Liquid, `{{ NAME }}`, and shown in Resend's syntax.
 */
import { hash } from 'node:crypto';
import { z } from 'zod';
import { isRefusal, type Refusal, refuseFields } from '../../core/refusals.ts';
import type { TemplateHead } from '../../templates/template-store.ts';
import type { NewTemplate, Template, TemplateChange } from '../../templates/templates.ts';
import { callerOf } from '../../http/access.ts';
import { refuse } from '../../http/errors.ts';
import { pageResponse, readPage } from '../../http/list-pages.ts';
import { label } from '../../http/schemas.ts';
import { UUID_BYTES, uuidText } from '../../mail/links/uuid.ts';
import type { App, HttpServices } from '../../http/services.ts';
import { anyCase, HIDDEN, idInPath, pageQuery } from './wire/shared-schemas.ts';

const NAME_MAX = 100;

export function registerResendTemplates(app: App, services: HttpServices): void {
  registerCreateAndList(app, services);
  registerReadChangeAndRemove(app, services);
  registerPublishAndDuplicate(app, services);
}

function registerCreateAndList(app: App, { templates }: HttpServices): void {
  app.post('/templates', {
    schema: { ...HIDDEN, body: creation },
    handler: async (request, reply) => {
      const refusal = refuseSender(request.body);
      if (refusal !== null) return refuse(reply, refusal);
      const { name, alias, subject, html, text, variables } = request.body;
      const template: NewTemplate = {
        name,
        alias: alias || null,
        subject: fromResend(subject ?? ''),
        html: html ? fromResend(html) : null,
        text: text ? fromResend(text) : null,
        variables: readVariables(variables ?? []),
      };
      const created = await templates.create(callerOf(request), template);
      return isRefusal(created)
        ? refuse(reply, created)
        : reply.code(201).send(templateRef(created));
    },
  });

  app.get('/templates', {
    schema: { ...HIDDEN, querystring: pageQuery },
    handler: async (request) => {
      const page = readPage(request.query);
      return pageResponse(await templates.list(callerOf(request), page), listedTemplateToResend);
    },
  });
}

function registerReadChangeAndRemove(app: App, { templates }: HttpServices): void {
  app.get('/templates/:id', {
    schema: { ...HIDDEN, params: idInPath },
    handler: async (request, reply) => {
      const found = await templates.get(callerOf(request), request.params.id);
      return isRefusal(found) ? refuse(reply, found) : templateToResend(found);
    },
  });

  app.patch('/templates/:id', {
    schema: { ...HIDDEN, params: idInPath, body: changes },
    handler: async (request, reply) => {
      const refusal = refuseSender(request.body);
      if (refusal !== null) return refuse(reply, refusal);
      const { variables, subject, html, text, name, alias } = request.body;
      const change: TemplateChange = {
        name: name || undefined,
        alias,
        subject: subject == null ? undefined : fromResend(subject),
        html: html === '' ? undefined : html && fromResend(html),
        text: text == null ? text : fromResend(text),
        variables: variables == null ? undefined : readVariables(variables),
      };
      const changed = await templates.update(callerOf(request), request.params.id, change);
      return isRefusal(changed) ? refuse(reply, changed) : templateRef(changed);
    },
  });

  app.delete('/templates/:id', {
    schema: { ...HIDDEN, params: idInPath },
    handler: async (request, reply) => {
      const deleted = await templates.delete(callerOf(request), request.params.id);
      return isRefusal(deleted)
        ? refuse(reply, deleted)
        : { object: 'template', id: deleted.id, deleted: true };
    },
  });
}

function registerPublishAndDuplicate(app: App, { templates }: HttpServices): void {
  app.post('/templates/:id/publish', {
    schema: { ...HIDDEN, params: idInPath },
    handler: async (request, reply) => {
      const published = await templates.publish(callerOf(request), request.params.id);
      return isRefusal(published) ? refuse(reply, published) : templateRef(published);
    },
  });

  app.post('/templates/:id/duplicate', {
    schema: { ...HIDDEN, params: idInPath },
    handler: async (request, reply) => {
      const caller = callerOf(request);
      const found = await templates.get(caller, request.params.id);
      if (isRefusal(found)) return refuse(reply, found);
      const { subject, html, text, variables } = found.content;
      const name = `${found.head.name} (copy)`.slice(0, NAME_MAX);
      const copy = { name, alias: null, subject, html, text, variables };
      const created = await templates.create(caller, copy);
      return isRefusal(created)
        ? refuse(reply, created)
        : reply.code(201).send(templateRef(created));
    },
  });
}

const variable = z.object({
  key: z.string(),
  type: anyCase(['string', 'number']),
  fallback_value: z.union([z.string(), z.number()]).nullish(),
});

const content = {
  subject: z.string().nullish(),
  html: z.string().nullish(),
  text: z.string().nullish(),
  alias: z.string().nullish(),
  from: z.string().nullish(),
  reply_to: z.union([z.string(), z.array(z.string())]).nullish(),
  variables: z.array(variable).nullish(),
};

const creation = z.object({ name: label(NAME_MAX), ...content });
/** Go always sends `name` and `html`; when empty, they count as absent. */
const changes = z.object({ name: label(NAME_MAX, 0).nullish(), ...content });

/** Refuses sender fields, because a template has only content. Returns null when there are none. */
function refuseSender(body: Pick<z.output<typeof changes>, 'from' | 'reply_to'>): Refusal | null {
  const field = (['from', 'reply_to'] as const).find((name) => (body[name]?.length ?? 0) > 0);
  if (field === undefined) return null;
  const message = 'is set for each email here, not for the template; leave it out';
  return refuseFields([{ field, message }]);
}

function readVariables(variables: readonly z.output<typeof variable>[]): NewTemplate['variables'] {
  return variables.map(({ key, type, fallback_value: fallback }) => ({
    name: key,
    type,
    ...(fallback != null && { default: fallback }),
  }));
}

function templateRef({ head }: Template) {
  return { object: 'template' as const, id: head.id };
}

function listedTemplateToResend(head: TemplateHead) {
  return {
    id: head.id,
    name: head.name,
    status: head.publishedVersion === null ? ('draft' as const) : ('published' as const),
    // Known for the version that is shown, not for the template.
    published_at: head.publishedVersion === null ? null : head.updatedAt.toISOString(),
    created_at: head.createdAt.toISOString(),
    updated_at: head.updatedAt.toISOString(),
    alias: head.alias,
  };
}

function templateToResend({
  head,
  content: { version, subject, html, text, variables, publishedAt },
}: Template) {
  const listedFields = listedTemplateToResend(head);
  return {
    object: 'template' as const,
    ...listedFields,
    published_at: publishedAt?.toISOString() ?? listedFields.published_at,
    current_version_id: versionId(head.id, version),
    has_unpublished_versions: head.latestVersion !== head.publishedVersion,
    from: null,
    reply_to: null,
    subject: subject === '' ? null : toResend(subject),
    html: toResend(html ?? ''),
    text: text === null ? null : toResend(text),
    variables: variables.map(({ name, type, default: fallback }) => ({
      key: name,
      // Clients know only these types.
      type: type === 'number' ? ('number' as const) : ('string' as const),
      fallback_value:
        typeof fallback === 'string' || typeof fallback === 'number' ? fallback : null,
      created_at: listedFields.created_at,
      updated_at: listedFields.updated_at,
    })),
  };
}

const NAME = '[A-Za-z_][A-Za-z0-9_]{0,63}';
const TRIPLE = new RegExp(`\\{\\{\\{ *(${NAME}) *\\}\\}\\}`, 'g');
const PLAIN = new RegExp(`\\{\\{ (${NAME}) \\}\\}(?!\\})`, 'g');

/**
 * Returns Liquid. As everywhere in this service, values are escaped in html. Everything except variables in this form
 * is Liquid already.
 */
function fromResend(source: string): string {
  return source.replaceAll(TRIPLE, '{{ $1 }}');
}

/** The inverse of fromResend. Constructs that only Liquid has do not change. */
function toResend(source: string): string {
  return source.replaceAll(PLAIN, '{{{$1}}}');
}

function versionId(templateId: string, version: number): string {
  return uuidText(hash('sha256', `${templateId} ${version}`, 'buffer').subarray(0, UUID_BYTES));
}
