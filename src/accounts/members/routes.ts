/**
 * Routes of members and invitations. For sessions only: a key belongs to a project, members belong to the
 * organization.
 */
import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import { type Actor, inviteMember, removeMember, setRole, tagOfMember } from './members.ts';
import { isRefusal, type Refusal } from '../../core/refusals.ts';
import { PROJECT_ROLES, type ProjectRoles } from '../../core/member-roles.ts';
import { PROJECTS_MAX } from '../limits/maximum-store.ts';
import { isId } from '../../database/ids.ts';
import { mailInvitation } from './invitation-mail.ts';
import {
  type Invitation,
  INVITATION_DAYS,
  listInvitations,
  revokeInvitation,
} from './invitation-store.ts';
import { listMembers, type Member } from './member-store.ts';
import { refuse } from '../../http/errors.ts';
import { isLocalOperator } from '../../http/socket/local-operator.ts';
import { pageResponse, readPage } from '../../http/list-pages.ts';
import {
  deleted,
  doc,
  entityTag,
  expectedBy,
  failures,
  idParams,
  idSchema,
  listOf,
  pageQuery,
  preconditionHeaders,
  tagged,
  time,
} from '../../http/schemas.ts';
import {
  email,
  linkToken,
  memberName,
  newPassword,
  role,
  session as sessionSchema,
} from '../sessions/schemas.ts';
import type { App, HttpServices } from '../../http/services.ts';
import { BY_SESSION, sessionOf } from '../sessions/http-sessions.ts';
import { sendNewSession } from '../sessions/routes.ts';

const TAGS = ['Members'];

const NO_MEMBER: Refusal = { refused: 'not_found', message: 'There is no member with this id.' };
const NO_INVITATION: Refusal = {
  refused: 'not_found',
  message: 'There is no invitation with this id that you may revoke.',
};

export function registerMemberRoutes(app: App, services: HttpServices): void {
  registerListMembers(app, services);
  registerSetRole(app, services);
  registerRemoveMember(app, services);
  registerListInvitations(app, services);
  registerInvite(app, services);
  registerRevokeInvitation(app, services);
  registerAcceptance(app, services);
}

function registerListMembers(app: App, { db }: HttpServices): void {
  app.get('/v1/members', {
    config: { access: 'session' },
    schema: {
      summary: 'List members',
      description:
        'Lists the members of the organization, newest first. A member with roles in some projects sees those who ' +
        'have a role in one of these.',
      operationId: 'listMembers',
      tags: TAGS,
      security: BY_SESSION,
      querystring: pageQuery,
      response: { 200: memberList, ...failures(400, 404, 422) },
    },
    handler: async (request) => {
      const page = readPage(request.query);
      return pageResponse(await listMembers(db, sessionOf(request), page), memberToWire);
    },
  });
}

function registerSetRole(app: App, { db }: HttpServices): void {
  app.patch('/v1/members/:id', {
    config: { access: 'session' },
    schema: {
      summary: 'Change the role of a member',
      description:
        'Sets the role of a member in the organization, or the roles in some of its projects. Returns 409 for the only owner. For admins. Only an owner can promote or ' +
        'demote an owner.',
      operationId: 'updateMember',
      tags: TAGS,
      security: BY_SESSION,
      params: idParams('member'),
      headers: preconditionHeaders,
      body: memberChange,
      response: { 200: member, ...failures(400, 404, 409, 412, 413, 415, 422) },
    },
    handler: async (request, reply) => {
      const { id } = request.params;
      if (!isId(id)) return refuse(reply, NO_MEMBER);
      const change = { id, ...request.body };
      const changed = await setRole(db, actorOf(request), change, expectedBy(request));
      return isRefusal(changed) ? refuse(reply, changed) : tagged(reply, memberToWire(changed));
    },
  });
}

function registerRemoveMember(app: App, { db }: HttpServices): void {
  app.delete('/v1/members/:id', {
    config: { access: 'session' },
    schema: {
      summary: 'Remove a member',
      description:
        'Removes a member. The sessions of the member end at once. API keys that ' +
        'the member created stay. Returns 409 for the only owner. For admins. Only an owner can remove an owner.',
      operationId: 'removeMember',
      tags: TAGS,
      security: BY_SESSION,
      params: idParams('member'),
      headers: preconditionHeaders,
      response: { 200: memberDeleted, ...failures(400, 404, 409, 412) },
    },
    handler: async (request, reply) => {
      const { id } = request.params;
      if (!isId(id)) return refuse(reply, NO_MEMBER);
      const removed = await removeMember(db, actorOf(request), id, expectedBy(request));
      if (isRefusal(removed)) return refuse(reply, removed);
      return { object: 'member' as const, id, deleted: true as const };
    },
  });
}

function registerListInvitations(app: App, { db }: HttpServices): void {
  app.get('/v1/invitations', {
    config: { access: 'session' },
    schema: {
      summary: 'List invitations',
      description: 'Lists open invitations, newest first. Their links are not included.',
      operationId: 'listInvitations',
      tags: TAGS,
      security: BY_SESSION,
      querystring: pageQuery,
      response: { 200: invitationList, ...failures(400, 404, 422) },
    },
    handler: async (request) => {
      const page = readPage(request.query);
      const { organizationId } = sessionOf(request);
      return pageResponse(await listInvitations(db, organizationId, page), invitationToWire);
    },
  });
}

function registerInvite(app: App, services: HttpServices): void {
  const { db, config, localUrl } = services;
  app.post('/v1/invitations', {
    config: { access: 'session' },
    schema: {
      summary: 'Invite a member',
      description:
        `Creates a link that works once, for ${INVITATION_DAYS} days, and is returned only here. The service mails it if ` +
        'the organization has a verified live domain and the installation a public URL; else pass it on. A new ' +
        'invitation for the same address replaces it. Returns 409 if a member has this address already.',
      operationId: 'createInvitation',
      tags: TAGS,
      security: BY_SESSION,
      body: newInvitation,
      response: { 201: invitationWithLink, ...failures(400, 404, 409, 413, 415, 422) },
    },
    handler: async (request, reply) => {
      const session = sessionOf(request);
      const invited = await inviteMember(db, session, request.body);
      if (isRefusal(invited)) return refuse(reply, invited);
      const url = (config.publicUrl ?? localUrl) + invited.link;
      const inviter = isLocalOperator(session) ? null : session;
      const mailed = await mailInvitation(services, { ...invited, inviter });
      return reply.code(201).send({ ...invitationToWire(invited.invitation), url, mailed });
    },
  });
}

function registerRevokeInvitation(app: App, { db }: HttpServices): void {
  app.delete('/v1/invitations/:id', {
    config: { access: 'session' },
    schema: {
      summary: 'Revoke an invitation',
      description:
        'Invalidates the link of the invitation. Only an owner can revoke the invitation of an owner.',
      operationId: 'revokeInvitation',
      tags: TAGS,
      security: BY_SESSION,
      params: idParams('invitation'),
      response: { 200: invitationDeleted, ...failures(400, 404) },
    },
    handler: async (request, reply) => {
      const { id } = request.params;
      const { organizationId, role: ownRole } = sessionOf(request);
      const revocation = { organizationId, id, mayRevokeOwners: ownRole === 'owner' };
      if (!isId(id) || !(await revokeInvitation(db, revocation)))
        return refuse(reply, NO_INVITATION);
      return { object: 'invitation' as const, id, deleted: true as const };
    },
  });
}

function registerAcceptance(app: App, services: HttpServices): void {
  const { accounts } = services;
  app.post('/v1/invitations/accept', {
    config: { access: 'sign_in' },
    schema: {
      summary: 'Accept an invitation',
      description: 'Adds the invited person as a member and starts a session.',
      operationId: 'acceptInvitation',
      tags: TAGS,
      security: [],
      body: acceptance,
      response: { 200: sessionSchema, ...failures(400, 404, 409, 413, 415, 422) },
    },
    handler: async (request, reply) => {
      const origin = accounts.sessions.originOf(request);
      const signedIn = await accounts.signIn.byInvitation(request.body, origin);
      return sendNewSession(signedIn, services, request, reply);
    },
  });
}

function actorOf(request: FastifyRequest): Actor {
  const session = sessionOf(request);
  return isLocalOperator(session) ? { ...session, memberId: null } : session;
}

function projectRolesToWire(projectRoles: ProjectRoles) {
  return projectRoles && Object.entries(projectRoles).map(([id, own]) => ({ id, role: own }));
}

function memberToWire(shown: Member) {
  const { id, email: address, name, role: memberRole, projectRoles } = shown;
  const { createdAt, lastSignedIn } = shown;
  return {
    object: 'member' as const,
    id,
    email: address,
    name,
    role: memberRole,
    projects: projectRolesToWire(projectRoles),
    created_at: createdAt.toISOString(),
    last_signed_in_at: lastSignedIn?.toISOString() ?? null,
    etag: tagOfMember(shown),
  };
}

function invitationToWire({
  id,
  email: address,
  role: invitedRole,
  projectRoles,
  createdAt,
  expiresAt,
}: Invitation) {
  return {
    object: 'invitation' as const,
    id,
    email: address,
    role: invitedRole,
    projects: projectRolesToWire(projectRoles),
    created_at: createdAt.toISOString(),
    expires_at: expiresAt.toISOString(),
  };
}

const projects = doc(
  z
    .array(
      z.strictObject({
        id: idSchema('The project.'),
        role: z.enum(PROJECT_ROLES).describe('Role in this project.'),
      }),
    )
    .min(1)
    .max(PROJECTS_MAX)
    .nullable(),
  'The projects in which the member has a role, or null: the role of the organization holds in all projects.',
);

const member = z
  .object({
    object: z.literal('member'),
    id: idSchema('The member.'),
    email,
    name: memberName,
    role,
    projects,
    created_at: time('Time of joining the organization.'),
    last_signed_in_at: time('Time of the last sign-in, or null before the first.').nullable(),
    etag: entityTag,
  })
  .meta({ id: 'Member' });

const memberList = listOf('MemberList', member);
const memberDeleted = deleted('DeletedMember', 'member');
const memberChange = z
  .strictObject({ role: role.optional(), projects: projects.optional() })
  .meta({ id: 'MemberChange' });

const invitationFields = {
  object: z.literal('invitation'),
  id: idSchema('The invitation.'),
  email,
  role,
  projects,
  created_at: time('Time of creation.'),
  expires_at: time('Time of expiry.'),
};

const invitation = z.object(invitationFields).meta({ id: 'Invitation' });

const invitationWithLink = z
  .object({
    ...invitationFields,
    url: z.string().meta({
      description: 'Link to accept the invitation. It is returned only here.',
      examples: ['https://mail.acme.com/sign-in#invitation=Ft3pVbGzvYk2wqS1m0n8…'],
    }),
    mailed: z.boolean().describe('True when the service mails the link to the address.'),
  })
  .meta({ id: 'InvitationWithLink' });

const invitationList = listOf('InvitationList', invitation);
const invitationDeleted = deleted('DeletedInvitation', 'invitation');
const newInvitation = z
  .strictObject({ email, role: role.optional(), projects: projects.optional() })
  .meta({ id: 'InvitationCreation' });

const acceptance = z
  .strictObject({ token: linkToken, name: memberName, password: newPassword })
  .meta({ id: 'InvitationAcceptance' });
