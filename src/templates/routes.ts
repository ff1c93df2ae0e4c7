/** Routes of templates: management, versions, previews (templates.ts). */
import type { FastifyRequest } from 'fastify';
import type { z } from 'zod';
import { isRefusal } from '../core/refusals.ts';
import { callerOf } from '../http/access.ts';
import { refuse } from '../http/errors.ts';
import { pageResponse, readPage } from '../http/list-pages.ts';
import { expectedBy, failures, preconditionHeaders, tagged } from '../http/schemas.ts';
import {
  renderedTemplate,
  template,
  templateChange,
  templateCreation,
  templateDeleted,
  templateList,
  templateParams,
  templatePreview,
  templatePublication,
  templateQuery,
  templateTranslation,
  templateVersionList,
  translatedTemplate,
  versionParams,
} from './schemas.ts';
import { isLocalOperator } from '../http/socket/local-operator.ts';
import type { App, HttpServices } from '../http/services.ts';
import type { TemplateVariable } from './template-store.ts';
import { renderedToWire, templateToWire, templateHeadToWire, versionToWire } from './wire.ts';
import { translationToWire } from '../move-in/template-translation.ts';

const TAGS = ['Templates'];
const params = templateParams;

export function registerTemplateRoutes(app: App, services: HttpServices): void {
  registerCreateAndList(app, services);
  registerSingleTemplate(app, services);
  registerVersions(app, services);
  registerPublishAndPreview(app, services);
  registerTranslation(app, services);
}

function registerCreateAndList(app: App, { templates }: HttpServices): void {
  app.post('/v1/templates', {
    schema: {
      summary: 'Create a template',
      description:
        'Creates a template. Its first version is a draft: preview it, then publish it. Returns 422 if a ' +
        'part cannot be parsed, or reads a variable that is not declared.',
      operationId: 'createTemplate',
      tags: TAGS,
      body: templateCreation,
      response: { 201: template, ...failures(400, 409, 413, 415, 422) },
    },
    handler: async (request, reply) => {
      const caller = callerOf(request);
      const { name, alias = null, subject, html = null, text = null } = request.body;
      const variables = withDefaults(request.body.variables ?? []);
      const newTemplate = { name, alias, subject: subject ?? '', html, text, variables };
      const created = await templates.create(caller, newTemplate, memberOf(request));
      if (isRefusal(created)) return refuse(reply, created);
      return reply.code(201).send(templateToWire(created, caller));
    },
  });

  app.get('/v1/templates', {
    schema: {
      summary: 'List templates',
      description:
        'Lists the templates of this project and environment, newest first. Their contents are not included.',
      operationId: 'listTemplates',
      tags: TAGS,
      querystring: templateQuery,
      response: { 200: templateList, ...failures(422) },
    },
    handler: async (request) => {
      const caller = callerOf(request);
      const page = readPage(request.query);
      const found = await templates.list(caller, { ...page, part: request.query.q ?? null });
      return pageResponse(found, (head) => templateHeadToWire(head, caller));
    },
  });
}

function registerSingleTemplate(app: App, { templates }: HttpServices): void {
  app.get('/v1/templates/:id', {
    schema: {
      summary: 'Get a template',
      description: 'Returns a template with the content of its latest version, published or not.',
      operationId: 'getTemplate',
      tags: TAGS,
      params,
      response: { 200: template, ...failures(404) },
    },
    handler: async (request, reply) => {
      const caller = callerOf(request);
      const found = await templates.get(caller, request.params.id);
      return isRefusal(found) ? refuse(reply, found) : tagged(reply, templateToWire(found, caller));
    },
  });

  app.patch('/v1/templates/:id', {
    schema: {
      summary: 'Change a template',
      description:
        'Changes only the given fields. With `If-Match`, only if nobody has changed it since. Published content ' +
        'never changes: changed content becomes the next version, which is a draft until you publish it. A ' +
        'member who changes the draft of another member creates the next version, too. The service keeps the ' +
        'last 50 versions and the published one.',
      operationId: 'updateTemplate',
      tags: TAGS,
      params,
      headers: preconditionHeaders,
      body: templateChange,
      response: { 200: template, ...failures(400, 404, 409, 412, 413, 415, 422) },
    },
    handler: async (request, reply) => {
      const caller = callerOf(request);
      const { name, alias, ...content } = request.body;
      const change = { name: name ?? undefined, alias, ...changeOf(content) };
      const { id } = request.params;
      const changed = await templates.update(caller, id, change, {
        isExpected: expectedBy(request),
        savedBy: memberOf(request),
      });
      return isRefusal(changed)
        ? refuse(reply, changed)
        : tagged(reply, templateToWire(changed, caller));
    },
  });

  app.delete('/v1/templates/:id', {
    schema: {
      summary: 'Delete a template',
      description:
        'Deletes a template with all its versions. Accepted emails keep their content, including scheduled ' +
        'ones.',
      operationId: 'deleteTemplate',
      tags: TAGS,
      params,
      headers: preconditionHeaders,
      response: { 200: templateDeleted, ...failures(404, 412) },
    },
    handler: async (request, reply) => {
      const { id } = request.params;
      const deleted = await templates.delete(callerOf(request), id, expectedBy(request));
      if (isRefusal(deleted)) return refuse(reply, deleted);
      return { object: 'template' as const, id: deleted.id, deleted: true as const };
    },
  });
}

function registerVersions(app: App, { templates }: HttpServices): void {
  app.get('/v1/templates/:id/versions', {
    schema: {
      summary: 'List the versions of a template',
      description:
        'Lists the versions of a template, newest first. Their contents are not included.',
      operationId: 'listTemplateVersions',
      tags: TAGS,
      params,
      response: { 200: templateVersionList, ...failures(404) },
    },
    handler: async (request, reply) => {
      const found = await templates.versions(callerOf(request), request.params.id);
      if (isRefusal(found)) return refuse(reply, found);
      return { object: 'list' as const, data: found.map(versionToWire), has_more: false };
    },
  });

  app.get('/v1/templates/:id/versions/:version', {
    schema: {
      summary: 'Get a version of a template',
      description: 'Returns a template with the content of this version.',
      operationId: 'getTemplateVersion',
      tags: TAGS,
      params: versionParams,
      response: { 200: template, ...failures(404) },
    },
    handler: async (request, reply) => {
      const caller = callerOf(request);
      const { id, version } = request.params;
      const found = await templates.get(caller, id, parseVersion(version));
      return isRefusal(found) ? refuse(reply, found) : templateToWire(found, caller);
    },
  });
}

/** Returns 0 for text that is not a number. No version is 0. */
function parseVersion(version: string): number {
  return /^[1-9]\d{0,8}$/.test(version) ? Number(version) : 0;
}

function registerPublishAndPreview(app: App, { templates }: HttpServices): void {
  app.post('/v1/templates/:id/publish', {
    schema: {
      summary: 'Publish a version of a template',
      description:
        'Publishes a version. Emails that are accepted afterwards use it. With `If-Match`, only if nobody has ' +
        'changed the template since.',
      operationId: 'publishTemplate',
      tags: TAGS,
      params,
      headers: preconditionHeaders,
      body: templatePublication,
      response: { 200: template, ...failures(400, 404, 412, 413, 415, 422) },
    },
    handler: async (request, reply) => {
      const caller = callerOf(request);
      const version = request.body.version ?? undefined;
      const { id } = request.params;
      const found = await templates.publish(caller, id, version, expectedBy(request));
      return isRefusal(found) ? refuse(reply, found) : tagged(reply, templateToWire(found, caller));
    },
  });

  app.post('/v1/templates/:id/preview', {
    schema: {
      summary: 'Render a template',
      description:
        'Renders a version as in an email. `content` replaces fields of the version. Nothing is stored or ' +
        'sent.',
      operationId: 'previewTemplate',
      tags: TAGS,
      params,
      body: templatePreview,
      response: { 200: renderedTemplate, ...failures(400, 404, 413, 415, 422) },
    },
    handler: async (request, reply) => {
      const { variables, version, content } = request.body;
      const options = {
        variables: variables ?? {},
        version: version ?? undefined,
        content: changeOf(content ?? {}),
      };
      const rendered = await templates.preview(callerOf(request), request.params.id, options);
      return isRefusal(rendered) ? refuse(reply, rendered) : renderedToWire(rendered);
    },
  });
}

function registerTranslation(app: App, { templates }: HttpServices): void {
  app.post('/v1/templates/translate', {
    schema: {
      summary: 'Translate a template of another service',
      description:
        'Translates Handlebars or the syntax of Resend to Liquid. Nothing is evaluated or stored. Correct the ' +
        '`problems`, then create a template from the result.',
      operationId: 'translateTemplate',
      tags: TAGS,
      body: templateTranslation,
      response: { 200: translatedTemplate, ...failures(400, 413, 415, 422) },
    },
    handler: async (request) => {
      const { syntax, subject = null, html = null, text = null } = request.body;
      const foreign = { subject, html, text };
      return translationToWire(await templates.translate(callerOf(request), foreign, syntax));
    },
  });
}

/** Returns the address of the member of a session; null for an API key or a command. */
function memberOf({ session }: Pick<FastifyRequest, 'session'>): string | null {
  return session === null || isLocalOperator(session) ? null : session.email;
}

type DeclaredVariables = NonNullable<z.output<typeof templateCreation>['variables']>;

/** Adds defaults: the type is string, and a default of null counts as none, because no type allows null. */
function withDefaults(variables: DeclaredVariables): TemplateVariable[] {
  return variables.map(({ name, type, default: fallback }) => ({
    name,
    type: type ?? 'string',
    ...(fallback != null && { default: fallback }),
  }));
}

/** Null removes html or text, and changes nothing in other fields. */
function changeOf({
  subject,
  html,
  text,
  variables,
}: Omit<z.output<typeof templateChange>, 'name' | 'alias'>) {
  return {
    subject: subject ?? undefined,
    html,
    text,
    variables: variables ? withDefaults(variables) : undefined,
  };
}
