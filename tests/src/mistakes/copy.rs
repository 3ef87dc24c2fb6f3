//! A copy of the workspace, in which mistakes are made.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Folders beside the sources that a build needs although they are hidden.
const HIDDEN: [&str; 1] = [".cargo"];

/// A copy of the workspace. It stays, so that the next one is built faster.
#[derive(Debug)]
pub struct Copy {
    root: PathBuf,
}

impl Copy {
    /// Makes a copy, or renews it: only what differs is written, so that nothing else is built again.
    ///
    /// # Errors
    /// A file cannot be read, or cannot be written.
    pub fn of(workspace: &Path, root: &Path) -> io::Result<Self> {
        fs::create_dir_all(root)?;
        let wanted = files_below(workspace)?;
        for file in &wanted {
            let content = fs::read(workspace.join(file))?;
            write_if_other(&root.join(file), &content)?;
        }
        for file in files_below(root)?.difference(&wanted) {
            fs::remove_file(root.join(file))?;
        }
        Ok(Self {
            root: root.to_path_buf(),
        })
    }

    /// Where it is.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The text of one of its files.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(&self, file: &str) -> io::Result<String> {
        fs::read_to_string(self.root.join(file))
    }

    /// Replaces one of its files.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, file: &str, text: &str) -> io::Result<()> {
        write_if_other(&self.root.join(file), text.as_bytes())
    }
}

fn write_if_other(path: &Path, content: &[u8]) -> io::Result<()> {
    if fs::read(path).is_ok_and(|old| old == content) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, content)
}

/// All files of a workspace, from its root, without what is built and what is hidden.
fn files_below(root: &Path) -> io::Result<BTreeSet<PathBuf>> {
    let mut files = BTreeSet::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder))? {
            let entry = entry?;
            let path = folder.join(entry.file_name());
            // Links are not followed.
            let kind = entry.file_type()?;
            if kind.is_dir() && is_source(root, &path) {
                folders.push(path);
            } else if kind.is_file() {
                files.insert(path);
            }
        }
    }
    Ok(files)
}

/// Whether a folder is not the output of a build, which cargo tags whatever its name, and not hidden.
fn is_source(root: &Path, folder: &Path) -> bool {
    let name = folder.file_name().and_then(|name| name.to_str());
    let is_hidden = name.is_none_or(|name| name.starts_with('.') && !HIDDEN.contains(&name));
    let is_built = name == Some("target") || root.join(folder).join("CACHEDIR.TAG").exists();
    !is_hidden && !is_built
}
