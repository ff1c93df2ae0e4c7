/** The members of this installation with their roles, and open invitations. */
import { useQuery } from '@tanstack/react-query';
import { ShieldUser, UserMinus, UserPlus, Users } from 'lucide-react';
import { type ReactNode, useState } from 'react';
import type { Invitation, InvitationWithLink, Member } from '../../../../sdk/src/api.ts';
import { findInList, useList, useReload } from '../../api/list.ts';
import { useApi } from '../../api/scope.ts';
import { sessionQuery } from '../../api/session.ts';
import { ActionForm } from '../../ui/action-form.tsx';
import { Allowed, useMay, useRole } from '../../ui/allowed.tsx';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { Field, textOf } from '../../ui/field.tsx';
import { MoreMenu } from '../../ui/more-menu.tsx';
import { PageBody, PageHead } from '../../ui/page.tsx';
import { SharedAction } from '../../ui/shared-action.tsx';
import { type IfMatch, undoIfSame } from '../../ui/shared-change.tsx';
import { SharedForm } from '../../ui/shared-form.tsx';
import { Code, Empty } from '../../ui/states.tsx';
import { type Column, ListTable, Never, Table } from '../../ui/table.tsx';
import { Time } from '../../ui/time.tsx';
import { useOfferUndo } from '../../ui/undo.tsx';
import { PolicySection } from './policy.tsx';
import {
  changeInWords,
  changeTo,
  projectsInWords,
  type Rights,
  type RightsChange,
  RightsFields,
  rightsIn,
  rightsInWords,
  roleInWords,
} from './rights.tsx';

type Open =
  | { kind: 'invite' }
  | { kind: 'role' | 'remove'; member: Member }
  | { kind: 'withdraw'; invitation: Invitation }
  | null;

export function MembersScreen(): ReactNode {
  const [open, setOpen] = useState<Open>(null);
  return (
    <>
      <MembersHead onInvite={() => setOpen({ kind: 'invite' })} />
      <PageBody>
        <Card wide={<MemberTable onAsk={setOpen} />} />
        <Allowed to="listInvitations">
          <Invitations onWithdraw={(invitation) => setOpen({ kind: 'withdraw', invitation })} />
        </Allowed>
        <PolicySection />
      </PageBody>
      <Dialogs open={open} close={() => setOpen(null)} />
    </>
  );
}

function MemberTable({ onAsk }: { onAsk: (open: Open) => void }): ReactNode {
  const { data: session } = useQuery(sessionQuery);
  const own = useRole();
  const may = useMay();
  const list = useList('listMembers');
  return (
    <ListTable
      label="Members"
      list={list}
      isEven
      keyOf={({ id }) => id}
      columns={[
        {
          title: 'Member',
          cell: ({ name, email }) => (
            <>
              <span className="font-medium break-words">{name}</span>
              <span className="block text-xs [overflow-wrap:anywhere] text-muted">{email}</span>
            </>
          ),
        },
        ...RIGHTS_COLUMNS,
        {
          title: 'Last signed in',
          isNumber: true,
          cell: ({ last_signed_in_at: at }) => (at === null ? <Never /> : <Time at={at} />),
        },
        {
          title: '',
          isNumber: true,
          isHidden: !may('updateMember'),
          cell: (member) =>
            member.id !== session?.member.id &&
            (member.role !== 'owner' || own === 'owner') && (
              <MoreMenu
                label={`More actions for ${member.name}`}
                size="small"
                items={[
                  {
                    label: 'Change the role',
                    icon: ShieldUser,
                    onChoose: () => onAsk({ kind: 'role', member }),
                  },
                  {
                    label: 'Remove',
                    icon: UserMinus,
                    isDestructive: true,
                    onChoose: () => onAsk({ kind: 'remove', member }),
                  },
                ]}
              />
            ),
        },
      ]}
      empty={<Empty title="No members" icon={Users} />}
    />
  );
}

/** The same for members and invitations, so that both tables are in line. */
const RIGHTS_COLUMNS: readonly Column<Rights>[] = [
  { title: 'Role', isPlain: true, cell: (rights) => roleInWords(rights) },
  { title: 'Projects', isPlain: true, cell: (rights) => <Projects of={rights} /> },
];

function Projects({ of }: { of: Rights }): ReactNode {
  const projects = useQuery(sessionQuery).data?.projects ?? [];
  return (
    <span className="[overflow-wrap:anywhere]">
      {projectsInWords(of, projects)}
      {of.projects === null && <span className="md:hidden"> projects</span>}
    </span>
  );
}

function MembersHead({ onInvite }: { onInvite: () => void }): ReactNode {
  return (
    <PageHead
      title="Members"
      about="A member has a role in all projects, or in some of them."
      primary={
        <Allowed to="createInvitation">
          <Button look="primary" onClick={onInvite}>
            <UserPlus size={15} aria-hidden />
            Invite
          </Button>
        </Allowed>
      }
    />
  );
}

function Dialogs({ open, close }: { open: Open; close: () => void }): ReactNode {
  return (
    <>
      <Dialog isOpen={open?.kind === 'invite'} onClose={close} title="Invite">
        <InviteForm />
      </Dialog>
      <Dialog isOpen={open?.kind === 'role'} onClose={close} title="Change role">
        {open?.kind === 'role' && <RoleForm member={open.member} onDone={close} />}
      </Dialog>
      <Dialog isOpen={open?.kind === 'remove'} onClose={close} title="Remove this member?">
        {open?.kind === 'remove' && <RemoveForm member={open.member} onDone={close} />}
      </Dialog>
      <Dialog isOpen={open?.kind === 'withdraw'} onClose={close} title="Withdraw this invitation?">
        {open?.kind === 'withdraw' && <WithdrawForm invitation={open.invitation} onDone={close} />}
      </Dialog>
    </>
  );
}

function Invitations({ onWithdraw }: { onWithdraw: (invitation: Invitation) => void }): ReactNode {
  const { rows } = useList('listInvitations');
  if (rows.length === 0) return null;
  return (
    <Card
      title="Invitations"
      about="The link of an invitation works once."
      wide={
        <Table
          label="Invitations"
          rows={rows}
          isEven
          keyOf={({ id }) => id}
          columns={[
            {
              title: 'Address',
              cell: ({ email }) => (
                <span className="font-medium [overflow-wrap:anywhere]">{email}</span>
              ),
            },
            ...RIGHTS_COLUMNS,
            { title: 'Expires', isNumber: true, cell: ({ expires_at: at }) => <Time at={at} /> },
            {
              title: '',
              isNumber: true,
              cell: (invitation) => (
                <Button
                  size="small"
                  aria-label={`Withdraw the invitation of ${invitation.email}`}
                  onClick={() => onWithdraw(invitation)}
                >
                  Withdraw
                </Button>
              ),
            },
          ]}
        />
      }
    />
  );
}

function InviteForm(): ReactNode {
  const api = useApi();
  const reload = useReload();
  const projects = useQuery(sessionQuery).data?.projects ?? [];
  const [sent, setSent] = useState<InvitationWithLink | null>(null);
  const invite = async (form: FormData): Promise<void> => {
    const body = { email: textOf(form, 'email'), ...rightsIn(form, projects) };
    setSent(await api.call('createInvitation', { body }));
    await reload('listInvitations');
  };
  if (sent !== null) {
    return (
      <div className="space-y-3 px-5 pt-1 pb-5">
        <p>
          {sent.mailed
            ? `The invitation is mailed to ${sent.email}. If it does not arrive, send this link yourself.`
            : 'Send this link to the person.'}{' '}
          It works once and is not shown again.
        </p>
        <Code what="link" text={sent.url} />
      </div>
    );
  }
  return (
    <ActionForm action="Create link" send={invite}>
      <Field label="Email" name="email" type="email" autoComplete="off" required />
      <RightsFields />
    </ActionForm>
  );
}

/** A role and projects exclude each other, so a change has both or neither. */
const withRights = (member: Member) => ({ ...member, rights: changeTo(member) });

function RoleForm({ member, onDone }: { member: Member; onDone: () => void }): ReactNode {
  const projects = useQuery(sessionQuery).data?.projects ?? [];
  const offerUndo = useOfferUndo();
  const api = useApi();
  const reload = useReload();
  const path = { id: member.id };
  const set = async (body: RightsChange, headers: IfMatch): Promise<Member> => {
    const changed = await api.call('updateMember', { path, body, headers });
    await reload('listMembers');
    return changed;
  };
  const done = (changed: Member, former: RightsChange): void => {
    const after = rightsInWords(changed, projects);
    onDone();
    if (after === changeInWords(former, projects)) return;
    const undo = (): Promise<void> =>
      undoIfSame(
        changed.etag,
        (headers) => set(former, headers),
        () => reload('listMembers'),
      );
    offerUndo({ text: `${member.name} is now ${after}.`, undo });
  };
  return (
    <SharedForm
      action="Change"
      object={withRights(member)}
      of={{ target_id: member.id }}
      fields={{ rights: ['Role', (rights) => changeInWords(rights, projects)] }}
      bodyOf={(form: FormData): { rights: RightsChange } => ({ rights: rightsIn(form, projects) })}
      change={(body, headers) => set(body.rights, headers)}
      read={async () => {
        const stored = await findInList(api, 'listMembers', ({ id }) => id === member.id);
        return stored && withRights(stored);
      }}
      onDone={async (_, changed) => done(changed, changeTo(member))}
    >
      {(present) => (
        <>
          <p>
            {member.name} is currently {rightsInWords(present, projects)}.
          </p>
          <RightsFields present={present} />
        </>
      )}
    </SharedForm>
  );
}

function RemoveForm({ member, onDone }: { member: Member; onDone: () => void }): ReactNode {
  const projects = useQuery(sessionQuery).data?.projects ?? [];
  const api = useApi();
  const reload = useReload();
  return (
    <SharedAction
      action="Remove"
      look="danger"
      objects={[withRights(member)]}
      of={({ id }) => ({ target_id: id })}
      changes={{ rights: ['Role', (rights) => changeInWords(rights, projects)] }}
      act={({ id }, headers) => api.call('removeMember', { path: { id }, headers })}
      read={async () => {
        const stored = await findInList(api, 'listMembers', ({ id }) => id === member.id);
        return stored && withRights(stored);
      }}
      onSome={() => reload('listMembers')}
      onDone={onDone}
    >
      <p>{member.name} is signed out everywhere and can no longer sign in.</p>
    </SharedAction>
  );
}

function WithdrawForm(props: { invitation: Invitation; onDone: () => void }): ReactNode {
  const { id, email } = props.invitation;
  const api = useApi();
  const reload = useReload();
  const withdraw = async (): Promise<void> => {
    await api.call('revokeInvitation', { path: { id } });
    await reload('listInvitations');
    props.onDone();
  };
  return (
    <ActionForm action="Withdraw" look="danger" send={withdraw}>
      <p>The invitation link of {email} stops working.</p>
    </ActionForm>
  );
}
