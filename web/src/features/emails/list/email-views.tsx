/** The menus of the list: its export, and the views (searches that a member saved by name). */
import { Menu } from '@base-ui/react/menu';
import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { Bookmark } from 'lucide-react';
import { lazy, type ReactNode, Suspense, useState } from 'react';
import type { View } from '../../../../../sdk/src/api.ts';
import { useReload } from '../../../api/list.ts';
import { useApi } from '../../../api/scope.ts';
import { buttonLook } from '../../../ui/button.tsx';
import { Dialog } from '../../../ui/dialog.tsx';
import { type ExportFormat, ExportMenu } from '../../../ui/export-menu.tsx';
import { MENU_ITEM, MENU_POPUP } from '../../../ui/more-menu.tsx';
import { useOfferUndo } from '../../../ui/undo.tsx';
import { importWhenOnline } from '../../../lib/lazy-import.ts';

/** Loaded when they open. */
const EmailExport = lazy(async () => {
  const form = await importWhenOnline(() => import('./email-export.tsx'));
  return { default: form.EmailExport };
});
const SaveView = lazy(async () => {
  const form = await importWhenOnline(() => import('./save-view.tsx'));
  return { default: form.SaveView };
});

export function EmailViews({ q }: { q: string }): ReactNode {
  const api = useApi();
  const navigate = useNavigate();
  const [open, setOpen] = useState<'save' | ExportFormat | null>(null);
  const close = (): void => setOpen(null);
  const views = useQuery(api.query('listViews'));
  const rows = views.data?.data ?? [];
  const present = rows.find((view) => view.q === q);
  const remove = useRemoval();
  return (
    <>
      <ExportMenu onChoose={setOpen} />
      <Menu.Root>
        <Menu.Trigger
          className={`${buttonLook({})} max-w-40`}
          aria-label={present ? `Views: ${present.name}` : 'Views'}
        >
          <Bookmark size={14} aria-hidden className="shrink-0" />
          <span className="truncate">{present?.name ?? 'Views'}</span>
        </Menu.Trigger>
        <Menu.Portal>
          <Menu.Positioner className="z-60" align="end" sideOffset={4}>
            <Menu.Popup className={`${MENU_POPUP} max-h-96 overflow-auto`}>
              {rows.map((view) => (
                <Menu.Item
                  key={view.id}
                  className={MENU_ITEM}
                  onClick={() =>
                    void navigate({
                      to: '/$project/$environment/emails',
                      params: api.scope,
                      search: view.q === '' ? {} : { q: view.q },
                    })
                  }
                >
                  <span className="max-w-80 min-w-0 grow truncate">{view.name}</span>
                </Menu.Item>
              ))}
              {rows.length > 0 && <Menu.Separator className="my-1 border-t border-line" />}
              <Menu.Item className={MENU_ITEM} disabled={q === ''} onClick={() => setOpen('save')}>
                Save this search
              </Menu.Item>
              {present && (
                <Menu.Item className={MENU_ITEM} onClick={() => void remove(present)}>
                  Delete the view “{present.name}”
                </Menu.Item>
              )}
            </Menu.Popup>
          </Menu.Positioner>
        </Menu.Portal>
      </Menu.Root>
      <Dialog isOpen={open === 'save'} onClose={close} title="Save this search">
        <Suspense>
          <SaveView q={q} onDone={close} />
        </Suspense>
      </Dialog>
      <Dialog
        isOpen={open === 'csv' || open === 'json'}
        onClose={close}
        title={`Export as ${open === 'json' ? 'JSON' : 'CSV'}`}
      >
        <Suspense>
          {(open === 'csv' || open === 'json') && <EmailExport q={q} format={open} />}
        </Suspense>
      </Dialog>
    </>
  );
}

function useRemoval(): (view: View) => Promise<void> {
  const api = useApi();
  const reload = useReload();
  const offerUndo = useOfferUndo();
  return async ({ id, name, q }) => {
    await api.call('deleteView', { path: { id } });
    await reload('listViews');
    offerUndo({
      text: `The view “${name}” was deleted.`,
      undo: async () => {
        await api.call('saveView', { body: { name, q } });
        await reload('listViews');
      },
    });
  };
}
