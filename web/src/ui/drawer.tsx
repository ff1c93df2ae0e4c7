/** Details beside the page, which keeps its place. It covers the page from the right until it is closed. */
import { Dialog as Base } from '@base-ui/react/dialog';
import { X } from 'lucide-react';
import { type ReactNode, useRef } from 'react';
import { isPageCovered } from '../api/cover.ts';
import { IconButton } from './button.tsx';
import { DIALOG_TITLE } from './dialog.tsx';

/** @param props.actions buttons beside the title */
export function Drawer(props: {
  title: ReactNode;
  about?: ReactNode;
  actions?: ReactNode;
  onClose: () => void;
  children: ReactNode;
}): ReactNode {
  const { title, about, actions, onClose, children } = props;
  const popup = useRef<HTMLDivElement>(null);
  return (
    <Base.Root open onOpenChange={(isOpen) => !isOpen && !isPageCovered() && onClose()}>
      <Base.Portal>
        <Base.Backdrop className="fixed inset-0 z-40 bg-scrim" />
        <Base.Popup
          ref={popup}
          // Enter presses nothing unread.
          initialFocus={popup}
          className="arrive-from-right fixed inset-y-0 right-0 z-50 flex w-[min(40rem,100vw)] flex-col bg-surface shadow-dialog outline-none [--page-x:1.25rem]"
        >
          <header className="flex shrink-0 items-start gap-2 border-b border-line py-3 pr-3 pl-5">
            <div className="min-w-0 grow">
              <Base.Title className={DIALOG_TITLE}>{title}</Base.Title>
              {about && <p className="-mt-1 text-sm text-muted">{about}</p>}
            </div>
            {actions}
            <Base.Close
              render={
                <IconButton label="Close">
                  <X size={16} aria-hidden />
                </IconButton>
              }
            />
          </header>
          <div className="min-h-0 grow overflow-y-auto">{children}</div>
        </Base.Popup>
      </Base.Portal>
    </Base.Root>
  );
}
