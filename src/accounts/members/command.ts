/**
 * `letterhaus members`: lists, invites and removes the members who may sign in to the dashboard, and changes their
 * roles.
 */
import { Argument, type Command, InvalidArgumentError, Option } from 'commander';
import type { Member } from '../../../sdk/src/api.ts';
import { type Api, apiCommand, type ApiOptions, listData } from '../../cli/api.ts';
import {
  type Cli,
  confirmed,
  type Failure,
  isFailure,
  type CommandResult,
  parseAddressArgument,
} from '../../cli/command.ts';
import { takeRows, PAGE_MAX } from '../../cli/lists.ts';
import { shortTime, table } from '../../cli/table.ts';
import { PROJECT_ROLES, type ProjectRole, type Role, ROLES } from '../../core/member-roles.ts';

export function describeMembers(members: Command, cli: Cli): void {
  apiCommand(members, cli, {
    name: 'list',
    about: 'list members, newest first',
    examples: ['members list'],
    environment: 'none',
    run: list,
  });
  apiCommand(members, cli, {
    name: 'invite',
    about: 'mail an invitation link, which works once, for 7 days, and print it',
    examples: [
      'members invite jo@acme.com --role developer',
      'members invite jo@acme.com --project-role Shop=admin',
    ],
    environment: 'none',
    run: invite,
  })
    .argument('<email>', 'the address to sign in with', parseAddressArgument)
    .addOption(new Option('--role <role>', 'role of the new member in all projects').choices(ROLES))
    .addOption(projectRoleOption());
  apiCommand(members, cli, {
    name: 'set-role',
    about: 'change the role of a member, in all projects or in some',
    examples: [
      'members set-role jo@acme.com admin',
      'members set-role jo@acme.com --project-role Shop=admin --project-role Blog=viewer',
    ],
    environment: 'none',
    run: setRole,
  })
    .argument('<member>', 'address or id')
    .addArgument(new Argument('[role]', 'role in all projects').choices(ROLES))
    .addOption(projectRoleOption());
  apiCommand(members, cli, {
    name: 'remove',
    about: 'remove a member, and end their sessions',
    examples: ['members remove jo@acme.com --yes'],
    environment: 'none',
    run: remove,
  })
    .argument('<member>', 'address or id')
    .option('--yes', 'do not ask for confirmation');
  apiCommand(members, cli, {
    name: 'policy',
    about: 'show whether every member needs a second factor, or change it',
    examples: ['members policy', 'members policy --second-factor required'],
    environment: 'none',
    run: policy,
  }).addOption(
    new Option(
      '--second-factor <rule>',
      'required: ends the sessions of members without one',
    ).choices(POLICIES),
  );
}

const POLICIES = ['required', 'optional'] as const;

async function policy(
  { client }: Api,
  { secondFactor }: ApiOptions & { secondFactor?: (typeof POLICIES)[number] },
): Promise<CommandResult> {
  const { members } = client;
  const data =
    secondFactor === undefined
      ? await members.signInPolicy()
      : await members.setSignInPolicy({ second_factor_required: secondFactor === 'required' });
  const rule = data.second_factor_required
    ? 'Every member needs a second factor.'
    : 'Each member decides whether to have a second factor.';
  return { data, text: `${rule} Members without one: ${data.members_without_second_factor}.` };
}

type RequestedProjectRole = { project: string; role: ProjectRole };

/** `Shop=developer`: the project is named by its name or its id. */
function projectRoleOption(): Option {
  const about = 'role in one project, and none in others, as Shop=developer; repeatable';
  return new Option('--project-role <project=role>', about).argParser<
    RequestedProjectRole[] | undefined
  >((text, before) => {
    const [, project = '', name] = /^(.+)=([a-z]+)$/.exec(text) ?? [];
    const role = PROJECT_ROLES.find((one) => one === name);
    if (role !== undefined) return [...(before ?? []), { project, role }];
    throw new InvalidArgumentError(`Write project=role; roles are ${PROJECT_ROLES.join(', ')}.`);
  });
}

type RightsOptions = { projectRole?: RequestedProjectRole[] };

/** Returns the fields of the request for one role in all projects, or for roles in some. */
async function rightsOf(
  client: Api['client'],
  role: Role | undefined,
  { projectRole: wanted = [] }: RightsOptions,
): Promise<Rights | Failure> {
  if ((role === undefined) === (wanted.length === 0)) {
    const failed = 'Give one role for all projects, or --project-role for each project.';
    return { failed, code: 'validation_error', exitCode: 2 };
  }
  if (role !== undefined) return { role, projects: null };
  const { data: projects } = await client.projects.list();
  const ids = wanted.map(({ project, role: own }) => {
    const found = projects.find(
      ({ id, name }) => id === project || name.toLowerCase() === project.toLowerCase(),
    );
    return found ? { id: found.id, role: own } : project;
  });
  const unknown = ids.find((one) => typeof one === 'string');
  if (unknown !== undefined) {
    const failed = `There is no project ${JSON.stringify(unknown)}; see letterhaus projects list.`;
    return { failed, code: 'not_found', exitCode: 1 };
  }
  return { projects: ids.filter((one) => typeof one !== 'string') };
}

type Rights = { role?: Role; projects: { id: string; role: ProjectRole }[] | null };

/** Returns what the member may do, as a cell of a table. */
function describeRights(
  { role, projects }: Pick<Member, 'role' | 'projects'>,
  nameOf: ReadonlyMap<string, string>,
): string {
  if (projects === null) return role;
  return projects.map((one) => `${one.role} in ${nameOf.get(one.id) ?? one.id}`).join(', ');
}

async function projectNames(client: Api['client']): Promise<Map<string, string>> {
  const { data } = await client.projects.list();
  return new Map(data.map(({ id, name }) => [id, name]));
}

const NO_NAMES: ReadonlyMap<string, string> = new Map();

const MEMBERS_MAX = 10_000;

async function list({ cli, client }: Api): Promise<CommandResult> {
  const { rows, hasMore } = await takeRows(client.members.list({ limit: PAGE_MAX }), MEMBERS_MAX);
  const names = rows.some(({ projects }) => projects !== null)
    ? await projectNames(client)
    : NO_NAMES;
  const text = table(cli, {
    columns: ['ID', { heading: 'EMAIL', cut: 2 }, { heading: 'NAME', cut: 1 }, 'ROLE', 'SIGNED IN'],
    rows: rows.map((member) => [
      member.id,
      member.email,
      member.name,
      describeRights(member, names),
      shortTime(member.last_signed_in_at),
    ]),
    none: {
      says: 'There is no member yet.',
      toDo: 'To create the owner',
      command: 'owner link',
    },
  });
  return { data: listData(rows, hasMore), text };
}

async function invite(
  { client }: Api,
  { role, ...options }: ApiOptions & RightsOptions & { role?: Role },
  [email]: [string],
): Promise<CommandResult> {
  const rights = await rightsOf(client, role, options);
  if (isFailure(rights)) return rights;
  const invitation = await client.members.invite({ email, ...rights });
  const until = shortTime(invitation.expires_at);
  const text = invitation.mailed
    ? `This link is mailed to ${invitation.email}; it works once, until ${until}:\n${invitation.url}`
    : `Pass this link on to ${invitation.email}; it works once, until ${until}:\n${invitation.url}`;
  return { data: invitation, text };
}

async function setRole(
  { client }: Api,
  options: ApiOptions & RightsOptions,
  [nameOrId, role]: [string, Role?],
): Promise<CommandResult> {
  const rights = await rightsOf(client, role, options);
  if (isFailure(rights)) return rights;
  const member = await findMember(client, nameOrId);
  if (isFailure(member)) return member;
  const changed = await client.members.update(member.id, rights);
  const names = changed.projects === null ? NO_NAMES : await projectNames(client);
  const text = `${changed.email} has the role ${describeRights(changed, names)}.`;
  return { data: changed, text };
}

async function remove(
  { cli, client }: Api,
  { yes }: ApiOptions & { yes?: true },
  [nameOrId]: [string],
): Promise<CommandResult> {
  const member = await findMember(client, nameOrId);
  if (isFailure(member)) return member;
  const refusal = await confirmed(cli, yes, {
    needs:
      'The member is signed out and cannot come back without an invitation; confirm with --yes.',
    asks: `Remove ${member.email}?`,
    otherwise: `${member.email} was not removed.`,
  });
  if (refusal !== null) return refusal;
  return {
    data: await client.members.remove(member.id),
    text: `Removed ${member.email}. API keys that the member created stay.`,
  };
}

async function findMember(client: Api['client'], nameOrId: string): Promise<Member | Failure> {
  const { rows } = await takeRows(client.members.list({ limit: PAGE_MAX }), MEMBERS_MAX);
  const wantedName = nameOrId.trim().toLowerCase();
  const found = rows.find(
    ({ id, email }) => id === wantedName || email.toLowerCase() === wantedName,
  );
  if (found !== undefined) return found;
  const message = `No member signs in with ${JSON.stringify(nameOrId)}; see letterhaus members list.`;
  return { failed: message, code: 'not_found', exitCode: 1 };
}
