/** The account of the signed-in member (password, second factor, sessions), and the installation for its owners. */
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useNavigate, useSearch } from '@tanstack/react-router';
import { MonitorCheck } from 'lucide-react';
import { type ReactNode, useState } from 'react';
import type { OwnSession } from '../../../../sdk/src/api.ts';
import { call } from '../../api/client.ts';
import { sessionQuery, signOutEverywhere } from '../../api/session.ts';
import { ActionForm } from '../../ui/action-form.tsx';
import { useMay } from '../../ui/allowed.tsx';
import { Button } from '../../ui/button.tsx';
import { Chip } from '../../ui/chip.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { Field, textOf } from '../../ui/field.tsx';
import { PageHead } from '../../ui/page.tsx';
import { Section } from '../../ui/section.tsx';
import { Problem, RowsSkeleton } from '../../ui/states.tsx';
import { TabLinks } from '../../ui/tab-links.tsx';
import { Table } from '../../ui/table.tsx';
import { Time } from '../../ui/time.tsx';
import { Installation } from './installation.tsx';
import { Passkeys } from './passkeys.tsx';
import { SecondFactor } from './second-factor.tsx';

export function SettingsScreen(): ReactNode {
  const { data: session } = useQuery(sessionQuery);
  const { tab } = useSearch({ from: '/$project/$environment/settings' });
  const isOwner = useMay()('listVariables');
  if (!session) return null;
  const { name, email } = session.member;
  const isInstallation = isOwner && tab === 'installation';
  return (
    <>
      <PageHead
        title="Settings"
        about={isInstallation ? 'For all projects of this installation.' : `${name} (${email})`}
      />
      {isOwner && (
        <div className="mb-6">
          <TabLinks label="Settings of" tabs={TABS} />
        </div>
      )}
      {isInstallation ? <Installation /> : <Account hasPassword={session.member.has_password} />}
    </>
  );
}

const TABS = [
  ['account', 'Your account'],
  ['installation', 'Installation'],
] as const;

function Account({ hasPassword }: { hasPassword: boolean }): ReactNode {
  return (
    <>
      {hasPassword && <PasswordSection />}
      <SecondFactor />
      <Passkeys />
      <Sessions />
    </>
  );
}

function PasswordSection(): ReactNode {
  const [isOpen, setOpen] = useState(false);
  const [isChanged, setChanged] = useState(false);
  const cache = useQueryClient();
  const change = async (form: FormData): Promise<void> => {
    await call('changePassword', {
      body: {
        current_password: textOf(form, 'current_password'),
        password: textOf(form, 'password'),
      },
    });
    await cache.invalidateQueries({ queryKey: SESSIONS });
    setOpen(false);
    setChanged(true);
  };
  return (
    <>
      <Section
        title="Password"
        about="Changing your password signs you out everywhere else."
        actions={
          <Button size="small" onClick={() => setOpen(true)}>
            Change password
          </Button>
        }
      >
        {isChanged && (
          <p role="status" className="text-sm">
            Your password has been changed.
          </p>
        )}
      </Section>
      <Dialog isOpen={isOpen} onClose={() => setOpen(false)} title="Change password">
        <ActionForm action="Change" send={change}>
          <Field
            label="Current password"
            name="current_password"
            type="password"
            autoComplete="current-password"
            required
          />
          <Field
            label="New password"
            name="password"
            type="password"
            autoComplete="new-password"
            hint="At least 10 characters."
            minLength={10}
            required
          />
        </ActionForm>
      </Dialog>
    </>
  );
}

const SESSIONS = ['session', 'all'] as const;

function Sessions(): ReactNode {
  const cache = useQueryClient();
  const navigate = useNavigate();
  const [isLeaving, setLeaving] = useState(false);
  const [failure, setFailure] = useState<unknown>(null);
  const sessions = useQuery({
    queryKey: SESSIONS,
    queryFn: ({ signal }) => call('listSessions', { signal }),
  });
  const end = async (id: string): Promise<void> => {
    setFailure(null);
    await call('endOwnSession', { path: { id } }).catch(setFailure);
    await cache.invalidateQueries({ queryKey: SESSIONS });
  };
  const endAll = async (): Promise<void> => {
    await signOutEverywhere();
    cache.clear();
    await navigate({ to: '/sign-in' });
  };
  return (
    <>
      <Section
        title="Sessions"
        about="Where you are signed in. A session ends 7 days after its last request."
        actions={
          <Button size="small" look="danger" onClick={() => setLeaving(true)}>
            Sign out everywhere
          </Button>
        }
        wide={
          <>
            {failure !== null && <Problem error={failure} />}
            {sessions.isPending && <RowsSkeleton rows={2} />}
            {sessions.isError && (
              <Problem error={sessions.error} retry={() => void sessions.refetch()} />
            )}
            {sessions.isSuccess && (
              <SessionTable rows={sessions.data.data} onEnd={(id) => void end(id)} />
            )}
          </>
        }
      />
      <Dialog isOpen={isLeaving} onClose={() => setLeaving(false)} title="Sign out everywhere?">
        <ActionForm action="Sign out" look="danger" send={endAll}>
          <p>This ends all your sessions, including this one.</p>
        </ActionForm>
      </Dialog>
    </>
  );
}

function SessionTable(props: { rows: OwnSession[]; onEnd: (id: string) => void }): ReactNode {
  return (
    <Table
      label="Sessions"
      rows={props.rows}
      keyOf={({ id }) => id}
      columns={[
        {
          title: 'Browser',
          cell: ({ user_agent: agent, network }) => (
            <span title={agent ?? ''}>
              {browserOf(agent ?? '')}
              <span className="block font-mono text-xs text-muted">{network}</span>
            </span>
          ),
        },
        {
          title: 'Signed in',
          isNumber: true,
          cell: ({ created_at: at }) => <Time at={at} />,
        },
        { title: 'Last used', isNumber: true, cell: ({ last_used_at: at }) => <Time at={at} /> },
        {
          title: '',
          isNumber: true,
          cell: ({ id, is_current: isCurrent, network }) =>
            isCurrent ? (
              <Chip tone="quiet" icon={MonitorCheck}>
                This session
              </Chip>
            ) : (
              <Button
                size="small"
                aria-label={`Sign out of the session from ${network}`}
                onClick={() => props.onEnd(id)}
              >
                Sign out
              </Button>
            ),
        },
      ]}
    />
  );
}

/** In order of precedence: the name of a browser is followed by those of its ancestors. */
const BROWSERS = ['Edg', 'OPR', 'Firefox', 'Chrome', 'Safari', 'curl'] as const;
const NAMES: Readonly<Record<string, string>> = { Edg: 'Edge', OPR: 'Opera' };
const SYSTEMS = ['Android', 'iPhone', 'iPad', 'Windows', 'Mac OS X', 'Linux'] as const;

/** For example "Firefox on Linux". */
function browserOf(agent: string): string {
  const browser = BROWSERS.find((name) => agent.includes(`${name}/`));
  const system = SYSTEMS.find((name) => agent.includes(name));
  const words = [browser && (NAMES[browser] ?? browser), system && `on ${system}`];
  return words.filter(Boolean).join(' ') || 'Unknown browser';
}
