/** Routes of the history of an address: the events of the emails to it, and its suppressions. */
import { hasRoleIn } from '../../core/member-roles.ts';
import { z } from 'zod';
import { type Refusal, refuseFields } from '../../core/refusals.ts';
import { addressKey, explainAddress, parseAddress } from '../../mail/address.ts';
import {
  type AddressLogEntry,
  readAddressLog,
  type ActiveSuppression,
  findActiveSuppressions,
} from './address-log-store.ts';
import { listProjects } from '../../accounts/projects/project-store.ts';
import { SUPPRESSION_REASONS } from '../../suppressions/suppression-store.ts';
import { callerOf } from '../../http/access.ts';
import { refuse } from '../../http/errors.ts';
import { environment, failures, idSchema, listOf, time } from '../../http/schemas.ts';
import type { App, HttpServices } from '../../http/services.ts';

export function registerAddressLogRoute(app: App, { db }: HttpServices): void {
  app.get('/v1/recipients/:address/log', {
    schema: {
      summary: 'Show the history of an address',
      description:
        'Returns the lists that suppress an address now, and its history, newest first. The history has the ' +
        'events of emails to the address, with the replies of mail servers, and its suppressions. Members ' +
        'can include all projects of the organization.',
      operationId: 'getRecipientLog',
      tags: ['Emails'],
      params: z.object({ address }),
      querystring: logQuery,
      response: { 200: log, ...failures(422) },
    },
    handler: async (request, reply) => {
      const { address: text } = request.params;
      const parsedAddress = parseAddress(text);
      if (parsedAddress === null) {
        return refuse(reply, refuseFields([{ field: 'address', message: explainAddress(text) }]));
      }
      const { scope, limit, environment: only = null } = request.query;
      if (scope === 'organization' && request.session === null)
        return refuse(reply, ONLY_IN_SESSIONS);
      const caller = callerOf(request);
      const { projectRoles = null } = request.session ?? {};
      const ofAll = (await listProjects(db, caller.organizationId)).filter(({ id }) =>
        hasRoleIn(id, projectRoles),
      );
      const projects =
        scope === 'organization' ? ofAll : ofAll.filter(({ id }) => id === caller.projectId);
      const names = new Map(projects.map(({ id, name }) => [id, name]));
      const about = {
        projectIds: [...names.keys()],
        environment: scope === 'organization' ? only : caller.environment,
        addressKey: addressKey(parsedAddress),
      };
      const [found, lists] = await Promise.all([
        readAddressLog(db, { ...about, limit: limit + 1 }),
        findActiveSuppressions(db, about),
      ]);
      return {
        object: 'list' as const,
        address: parsedAddress,
        suppressed: lists.map((one) => activeSuppressionToWire(one, names)),
        data: found.slice(0, limit).map((entry) => entryToWire(entry, names)),
        has_more: found.length > limit,
      };
    },
  });
}

const ONLY_IN_SESSIONS: Refusal = {
  refused: 'authorization_error',
  message:
    'A key has access to one project and environment. Only signed-in members can select the organization.',
};

function entryToWire(entry: AddressLogEntry, names: ReadonlyMap<string, string>) {
  return {
    at: entry.at.toISOString(),
    project_id: entry.projectId,
    project: names.get(entry.projectId) ?? '',
    environment: entry.environment,
    email_id: entry.emailId,
    type: entry.type,
    code: entry.code,
    enhanced_code: entry.enhancedCode,
    message: entry.message,
    mx: entry.mx,
    category: entry.category,
    blame: entry.blame,
    advice: entry.advice,
    reason: entry.reason,
    by: entry.by,
  };
}

function activeSuppressionToWire(one: ActiveSuppression, names: ReadonlyMap<string, string>) {
  return {
    project_id: one.projectId,
    project: names.get(one.projectId) ?? '',
    environment: one.environment,
    reason: one.reason,
    created_at: one.createdAt.toISOString(),
    expires_at: one.expiresAt?.toISOString() ?? null,
    source_email_id: one.sourceEmailId,
    simulated: one.isSimulated,
  };
}

const address = z
  .string()
  .meta({ description: 'Address of the recipient.', examples: ['jo@example.org'] });

const logQuery = z.strictObject({
  scope: z
    .enum(['project', 'organization'])
    .default('project')
    .describe(
      'Scope of the history. `organization` includes all projects of the organization, for members only.',
    ),
  environment: environment
    .optional()
    .describe('Environment to include with the scope `organization`. The default is both.'),
  limit: z.coerce
    .number<string>()
    .int()
    .min(1)
    .max(1_000)
    .default(50)
    .describe('Maximum number of entries to return.'),
});

const text = (description: string) => z.string().nullable().describe(description);
const where = {
  project_id: idSchema('The project.'),
  project: z.string().describe('Name of the project.'),
  environment,
};

const entry = z
  .object({
    at: time('Time of the entry.'),
    ...where,
    email_id: idSchema('Email of the entry, or null when no email caused it.').nullable(),
    type: z.string().meta({
      description: 'Type of the event, or `suppression.added` or `suppression.removed`.',
      examples: ['email.bounced'],
    }),
    code: z.int().nullable().describe('Reply code of the mail server, or null without a reply.'),
    enhanced_code: text('Enhanced status code of the reply, or null without one.'),
    message: text('Text of the reply, or null without one.'),
    mx: text('Host name of the mail server, or null without one.'),
    category: text('Meaning of the reply, from a fixed list.'),
    blame: text('Party that can solve the problem.'),
    advice: text('One sentence that says what to do.'),
    reason: z.enum(SUPPRESSION_REASONS).nullable().describe('Reason of the suppression.'),
    by: text('Actor that changed the suppression.'),
  })
  .meta({ id: 'RecipientLogEntry' });

const log = listOf('RecipientLogList', entry, {
  address,
  suppressed: z
    .array(
      z.object({
        ...where,
        reason: z.enum(SUPPRESSION_REASONS),
        created_at: time('Time of creation.'),
        expires_at: time(
          'Time of expiry, or null when the suppression does not expire.',
        ).nullable(),
        source_email_id: idSchema(
          'Email that caused the suppression, or null without one.',
        ).nullable(),
        simulated: z
          .boolean()
          .describe('True for an address of the simulator. It still receives mail.'),
      }),
    )
    .describe('Suppression lists with the address now.'),
});
