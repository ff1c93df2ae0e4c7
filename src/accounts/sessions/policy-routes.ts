/** Routes of the sign-in policy: whether every member needs a second factor. For owners of the first organization. */
import { z } from 'zod';
import type { Refusal } from '../../core/refusals.ts';
import { refuse } from '../../http/errors.ts';
import { requireOperator } from '../../http/operators.ts';
import {
  entityTag,
  expectedBy,
  failures,
  preconditionHeaders,
  tagged,
  time,
} from '../../http/schemas.ts';
import type { App, HttpServices } from '../../http/services.ts';
import { isLocalOperator } from '../../http/socket/local-operator.ts';
import { changePolicy, readPolicy, type SignInPolicy, tagOfPolicy } from './policy-store.ts';
import { BY_SESSION, sessionOf } from './http-sessions.ts';

const TAGS = ['Operator'];

const NONE_OF_YOUR_OWN: Refusal = {
  refused: 'conflict',
  message: 'You have no second factor yourself; set one up and sign in with it first.',
};

export function registerPolicyRoutes(app: App, { db }: HttpServices): void {
  const route = { config: { access: 'session' as const }, preHandler: requireOperator(db) };
  app.get('/v1/operator/sign-in-policy', {
    ...route,
    schema: {
      summary: 'Show the sign-in policy',
      description:
        'Returns whether every member needs a second factor, and how many members have none. For owners.',
      operationId: 'getSignInPolicy',
      tags: TAGS,
      security: BY_SESSION,
      response: { 200: policy, ...failures(404) },
    },
    handler: async (_, reply) => tagged(reply, policyToWire(await readPolicy(db))),
  });

  app.patch('/v1/operator/sign-in-policy', {
    ...route,
    schema: {
      summary: 'Require a second factor',
      description:
        'Requires a second factor of every member, or lets each member decide. Requiring it ends all sessions that began ' +
        'without one. Members without a second factor set it up at their next sign-in and can do nothing else before. ' +
        'Returns 409 when your own session began without one. For owners.',
      operationId: 'updateSignInPolicy',
      tags: TAGS,
      security: BY_SESSION,
      headers: preconditionHeaders,
      body: policyChange,
      response: { 200: policy, ...failures(400, 404, 409, 412, 413, 415, 422) },
    },
    handler: async (request, reply) => {
      const session = sessionOf(request);
      const isRequired = request.body.second_factor_required;
      const isWithout =
        !isLocalOperator(session) && !session.totpEnabled && !session.hasSecondFactor;
      if (isRequired && isWithout) return refuse(reply, NONE_OF_YOUR_OWN);
      const refusal = await changePolicy(db, { isRequired, isExpected: expectedBy(request) });
      if (refusal !== null) return refuse(reply, refusal);
      return tagged(reply, policyToWire(await readPolicy(db)));
    },
  });
}

function policyToWire({ requiredAt, membersWithout }: SignInPolicy) {
  return {
    object: 'sign_in_policy' as const,
    second_factor_required: requiredAt !== null,
    second_factor_required_at: requiredAt?.toISOString() ?? null,
    members_without_second_factor: membersWithout,
    etag: tagOfPolicy({ requiredAt }),
  };
}

const isRequired = z.boolean().describe('True when every member needs a second factor.');

const policy = z
  .object({
    object: z.literal('sign_in_policy'),
    second_factor_required: isRequired,
    second_factor_required_at: time('Time since when it is required, or null.').nullable(),
    members_without_second_factor: z.int().meta({
      description: 'Number of members who have neither an authenticator app nor a passkey.',
      examples: [2],
    }),
    etag: entityTag,
  })
  .meta({ id: 'SignInPolicy' });

const policyChange = z
  .strictObject({ second_factor_required: isRequired })
  .meta({ id: 'SignInPolicyChange' });
