/**
 * Decides who may run the installation over HTTP: a key of the operator's project, or a session in the first
 * organization. Changes of the installation as a whole need the session of an owner (roles.ts).
 */
import type { FastifyRequest, preHandlerHookHandler } from 'fastify';
import { OPERATOR_PROJECT_ID } from '../core/operator-events.ts';
import type { Refusal } from '../core/refusals.ts';
import { findOrganization } from '../accounts/members/member-store.ts';
import type { Queryable } from '../database/database.ts';
import { callerOf } from './access.ts';
import { refuse } from './errors.ts';
import { isFromLocalOperator } from './socket/local-operator.ts';
import { sessionOf } from '../accounts/sessions/http-sessions.ts';

export const NOT_OPERATOR: Refusal = {
  refused: 'authorization_error',
  message:
    'This is for the operator: use a key that was made with ' +
    '`letterhaus keys create --project operator --environment live`.',
};

const OTHER_ORGANIZATION: Refusal = {
  refused: 'authorization_error',
  message: 'This concerns the whole installation: an owner of its first organization may do it.',
};

/**
 * Returns whether the caller has an operator's key, a session in the first organization, or shell access to the
 * machine.
 */
export async function isOperator(db: Queryable, request: FastifyRequest): Promise<boolean> {
  if (isFromLocalOperator(request)) return true;
  const { projectId, organizationId } = callerOf(request);
  if (request.session === null) return projectId === OPERATOR_PROJECT_ID;
  // The role that admitted the request is one in a project, and the installation is none.
  if (request.session.projectRoles !== null) return false;
  return organizationId === (await findOrganization(db));
}

/** Refuses members of other organizations, on routes with `access: 'session'`. */
export function requireOperator(db: Queryable): preHandlerHookHandler {
  return (request, reply, done) => {
    // On the machine, the session belongs to the organization of the project that the command chose.
    if (isFromLocalOperator(request)) return done();
    findOrganization(db).then((id) => {
      if (sessionOf(request).organizationId === id) done();
      else refuse(reply, OTHER_ORGANIZATION);
    }, done);
  };
}
